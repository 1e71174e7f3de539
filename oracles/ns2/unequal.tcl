# Packets of unequal lengths: A with a fifth of the link sends small ones, B with two fifths large ones; two fifths are nobody's.
source [file join [file dirname [info script]] common.tcl]
link 8.192Mb CBQ/WRR 2 1000
class A top 0.20
class B top 0.40
class C top 0.10
flow A 9Mb 125 {0 15}
flow B 9.1Mb 1000 {0 5 10 15}
flow C 9.2Mb 500 {0 10}
measure 15
