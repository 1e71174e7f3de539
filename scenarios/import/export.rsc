# 2026-11-23 09:00:00 by RouterOS 7.16
/queue type
add kind=pcq name=pcq-house pcq-classifier=dst-address
/queue simple
add max-limit=10M/50M name=house target=192.168.88.0/24
add limit-at=2M/10M max-limit=10M/50M name=office parent=house priority=2/2 \
    target=192.168.88.16/28
add burst-limit=0/60M burst-threshold=0/20M burst-time=0s/10s limit-at=1M/5M \
    max-limit=10M/40M name="living room" parent=house queue=\
    default-small/pcq-house target=192.168.88.32/27
add max-limit=5M/20M name=guests target=192.168.89.0/24
