// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The laboratory's source and sink in one process: frames into one interface, counted at another.
 *
 *   traffic rates  OUT IN MS PHASE_MS SPEC...      SPEC = NAME:PRIORITY:BYTES:BIT/S:FROM_MS-TO_MS[,FROM_MS-TO_MS]
 *   traffic order  OUT IN FILE WAIT_MS             FILE has lines "PRIORITY BYTES HEX"; all are sent at once. HEX is what the frame
 *                                                  begins with, or - for a broadcast of a type for local experiments
 *   traffic flood  OUT COUNT PRIORITY BYTES        as fast as it goes; m0x10002 as PRIORITY is SO_MARK
 *   traffic frame  OUT HEX                         one frame, without the tags that OUT's name ends with (v0.5.7: two)
 *   traffic tell   IF add|change FILE [BY]         the bytes of FILE to the kernel as fairlink's configuration; IF is v0 for 1: at its root, or
 *                                                  v0/9:1 for 1: below the class 9:1
 *
 * BY is how: `message` as an attribute, `memory` in a file in memory, which are what is right; and what is wrong: `file` one of /proc,
 * `directory`, `pipe`, `closed`, `writing` a file in memory that cannot be read, `empty`, `large` one of 40 MiB, `both`, `short` a descriptor of two
 * bytes.
 *
 * PRIORITY is what SO_PRIORITY is set to (0x10002 for class 1:2). A frame has the length BYTES from its destination address on.
 * `rates` prints "PHASE n NAME bytes" and, at the end, "SENT NAME frames" and "GOT NAME frames".
 * `order` prints "ORDER n" for each line number that arrives.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#define ETHERTYPE 0x88b5 /* for local experiments */
#define MAX_SOURCES 64
#define MAX_PHASES 64

struct source {
	const char *name;
	int socket;
	unsigned int bytes;
	uint64_t gap, next;
	struct { uint64_t from, to; } active[8];
	int intervals;
	uint64_t sent, refused, got, phase[MAX_PHASES];
};

static struct source sources[MAX_SOURCES];
static int count;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static int open_socket(const char *name, int protocol, unsigned int priority)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol) };
	int s = socket(AF_PACKET, SOCK_RAW, htons(protocol)), large = 256 << 20;

	if (s < 0)
		die("socket");
	at.sll_ifindex = (int)if_nametoindex(name);
	if (!at.sll_ifindex || bind(s, (struct sockaddr *)&at, sizeof(at)))
		die(name);
	if (setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof(large)) ||
	    setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof(large)) ||
	    (priority && setsockopt(s, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority))))
		die("setsockopt");
	return s;
}

static int send_frame(int s, unsigned int bytes, uint32_t who, uint32_t number)
{
	static unsigned char frame[65536];
	static const unsigned char head[14] = { 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5 };

	memcpy(frame, head, sizeof(head));
	memcpy(frame + 14, &who, 4);
	memcpy(frame + 18, &number, 4);
	return send(s, frame, bytes, MSG_DONTWAIT) == (ssize_t)bytes ? 0 : -1;
}

static int is_active(const struct source *source, uint64_t at)
{
	for (int i = 0; i < source->intervals; i++)
		if (at >= source->active[i].from && at < source->active[i].to)
			return 1;
	return 0;
}

static void read_source(char *text)
{
	struct source *source = &sources[count++];
	char *name = strtok(text, ":"), *priority = strtok(NULL, ":"), *bytes = strtok(NULL, ":"), *rate = strtok(NULL, ":"),
	     *spans = strtok(NULL, ":");

	source->name = name;
	source->bytes = (unsigned int)strtoul(bytes, NULL, 0);
	source->gap = source->bytes * 8ull * 1000000000ull / strtoull(rate, NULL, 0);
	for (char *span = strtok(spans, ","); span; span = strtok(NULL, ",")) {
		char *to;

		source->active[source->intervals].from = strtoull(span, &to, 0) * 1000000ull;
		source->active[source->intervals++].to = strtoull(to + 1, NULL, 0) * 1000000ull;
	}
	source->socket = (int)strtoul(priority, NULL, 0);
}

static void receive_all(int in, uint64_t start, uint64_t phase_ns)
{
	static unsigned char frame[65536];
	ssize_t got;

	while ((got = recv(in, frame, sizeof(frame), MSG_DONTWAIT)) > 0) {
		uint64_t phase = (now_ns() - start) / phase_ns;
		uint32_t who;

		memcpy(&who, frame + 14, 4);
		if (who >= (uint32_t)count || phase >= MAX_PHASES)
			continue;
		sources[who].got++;
		sources[who].phase[phase] += (uint64_t)got;
	}
}

static int rates(int argc, char **argv)
{
	uint64_t duration, phase, start;
	int in;

	if (argc < 7)
		return 2;
	in = open_socket(argv[3], ETHERTYPE, 0);
	duration = strtoull(argv[4], NULL, 0) * 1000000ull;
	phase = strtoull(argv[5], NULL, 0) * 1000000ull;
	for (int i = 6; i < argc && count < MAX_SOURCES; i++)
		read_source(argv[i]);
	for (int i = 0; i < count; i++)
		sources[i].socket = open_socket(argv[2], ETHERTYPE, (unsigned int)sources[i].socket);
	start = now_ns();
	for (;;) {
		uint64_t at = now_ns() - start, next = at + 5000000;
		struct pollfd wait = { .fd = in, .events = POLLIN };
		struct timespec t;

		if (at >= duration)
			break;
		for (int i = 0; i < count; i++) {
			struct source *s = &sources[i];

			while (s->next <= at) {
				if (is_active(s, s->next)) {
					if (send_frame(s->socket, s->bytes, (uint32_t)i, (uint32_t)s->sent))
						s->refused++;
					s->sent++;
				}
				s->next += s->gap;
			}
			if (s->next < next)
				next = s->next;
		}
		receive_all(in, start, phase);
		at = now_ns() - start;
		t.tv_sec = 0;
		t.tv_nsec = next > at ? (long)(next - at) : 0;
		ppoll(&wait, 1, &t, NULL);
	}
	receive_all(in, start, phase);
	for (int i = 0; i < count; i++) {
		for (uint64_t p = 0; p < (duration + phase - 1) / phase && p < MAX_PHASES; p++)
			printf("PHASE %d %s %llu\n", (int)p, sources[i].name, (unsigned long long)sources[i].phase[p]);
		printf("SENT %s %llu\nGOT %s %llu\n", sources[i].name, (unsigned long long)sources[i].sent, sources[i].name,
		       (unsigned long long)sources[i].got);
	}
	return 0;
}

/* Bytes of a text in hexadecimal, at most `room` of them; how many. */
static size_t bytes_of(const char *hex, unsigned char *to, size_t room)
{
	size_t bytes = strlen(hex) / 2;

	if (bytes > room)
		return 0;
	for (size_t at = 0; at < bytes; at++) {
		char two[3] = { hex[2 * at], hex[2 * at + 1], 0 };

		to[at] = (unsigned char)strtoul(two, NULL, 16);
	}
	return bytes;
}

/* A frame ends with this and its number. */
#define LAST 0x6e69666bu

static int order(char **argv)
{
	static struct { unsigned int priority, bytes; char head[160]; } lines[65536];
	static int sockets[65536];
	static unsigned int by_priority[65536];
	unsigned int used = 0, total = 0, arrived = 0;
	int in = open_socket(argv[3], ETH_P_ALL, 0);
	FILE *file = fopen(argv[4], "r");
	uint64_t end;

	if (!file)
		die(argv[4]);
	while (total < 65536 && fscanf(file, "%x %u %159s", &lines[total].priority, &lines[total].bytes, lines[total].head) == 3)
		total++;
	for (unsigned int i = 0; i < total; i++) {
		unsigned int at = 0;

		while (at < used && by_priority[at] != lines[i].priority)
			at++;
		if (at == used) {
			by_priority[used] = lines[i].priority;
			/* No protocol: it is the frame's. */
			sockets[used++] = open_socket(argv[2], 0, lines[i].priority);
		}
		lines[i].priority = at;
	}
	for (uint32_t i = 0; i < total; i++) {
		static unsigned char frame[65536];
		const uint32_t last[2] = { LAST, i };
		ssize_t bytes = (ssize_t)lines[i].bytes;

		memset(frame, 0, sizeof(frame));
		bytes_of(strcmp(lines[i].head, "-") ? lines[i].head : "ffffffffffff02000000000188b5", frame, sizeof(frame));
		memcpy(frame + bytes - sizeof(last), last, sizeof(last));
		if (send(sockets[lines[i].priority], frame, (size_t)bytes, MSG_DONTWAIT) != bytes)
			printf("REFUSED %u\n", i);
	}
	end = now_ns() + strtoull(argv[5], NULL, 0) * 1000000ull;
	while (arrived < total && now_ns() < end) {
		struct pollfd wait = { .fd = in, .events = POLLIN };
		unsigned char frame[65536];
		uint32_t last[2];
		ssize_t got;

		if (poll(&wait, 1, 50) <= 0)
			continue;
		got = recv(in, frame, sizeof(frame), MSG_DONTWAIT);
		if (got < 22)
			continue;
		memcpy(last, frame + got - sizeof(last), sizeof(last));
		if (last[0] != LAST)
			continue;
		printf("ORDER %u\n", last[1]);
		arrived++;
	}
	return 0;
}

static int flood(char **argv)
{
	unsigned long left = strtoul(argv[3], NULL, 0), refused = 0;
	int marked = argv[4][0] == 'm';
	unsigned int number = (unsigned int)strtoul(argv[4] + marked, NULL, 0);
	int s = open_socket(argv[2], ETHERTYPE, marked ? 0 : number);
	unsigned int bytes = (unsigned int)strtoul(argv[5], NULL, 0);

	if (marked && setsockopt(s, SOL_SOCKET, SO_MARK, &number, sizeof(number)))
		die("SO_MARK");
	for (uint32_t n = 0; n < left; n++)
		refused += (unsigned long)(send_frame(s, bytes, 0, n) != 0);
	printf("FLOOD sent %lu refused %lu\n", left, refused);
	return 0;
}

static struct nlattr *attribute(char *message, unsigned short kind, const void *value, size_t len)
{
	struct nlmsghdr *header = (struct nlmsghdr *)message;
	struct nlattr *at = (struct nlattr *)(message + NLMSG_ALIGN(header->nlmsg_len));

	at->nla_type = kind;
	at->nla_len = (unsigned short)(NLA_HDRLEN + len);
	if (value)
		memcpy((char *)at + NLA_HDRLEN, value, len);
	header->nlmsg_len = NLMSG_ALIGN(header->nlmsg_len) + (unsigned int)NLA_ALIGN(NLA_HDRLEN + len);
	return at;
}

static int one_frame(char **argv)
{
	static unsigned char frame[4096];
	size_t bytes = bytes_of(argv[3], frame, sizeof(frame)), cut = 0;
	int s = open_socket(argv[2], 0, 0);

	if (!bytes)
		return 2;
	for (const char *dot = argv[2]; (dot = strchr(dot, '.')); dot++)
		cut += 4;
	memmove(frame + 12, frame + 12 + cut, bytes - 12 - cut);
	if (send(s, frame, bytes - cut, 0) != (ssize_t)(bytes - cut))
		die("send");
	return 0;
}

/* The descriptor of what holds a configuration, or does not. */
static int handed(const char *by, const char *config, size_t len)
{
	int fd, ends[2];

	if (!strcmp(by, "file"))
		return open("/proc/kallsyms", O_RDONLY);
	if (!strcmp(by, "directory"))
		return open("/dev", O_RDONLY);
	if (!strcmp(by, "pipe"))
		return pipe(ends) ? -1 : ends[0];
	if (!strcmp(by, "closed"))
		return 999;
	fd = memfd_create("config", 0);
	if (!strcmp(by, "large") ? ftruncate(fd, 40 << 20) : strcmp(by, "empty") && write(fd, config, len) != (ssize_t)len)
		die("memfd");
	if (!strcmp(by, "writing")) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		return open(path, O_WRONLY);
	}
	return fd;
}

/* Prints "TOLD 0", or "TOLD error-number text". */
static int tell(int argc, char **argv)
{
	static char message[1 << 17], config[32 << 20];
	const char *by = argc > 5 ? argv[5] : "message";
	char *below = strchr(argv[2], '/');
	unsigned int major = 0, minor = 0;
	struct nlmsghdr *header = (struct nlmsghdr *)message;
	struct tcmsg *tc = NLMSG_DATA(header);
	int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), on = 1, in_message = !strcmp(by, "message") || !strcmp(by, "both");
	FILE *file = fopen(argv[4], "r");
	struct nlattr *options;
	size_t len;
	int error;

	if (s < 0 || !file)
		die(argv[4]);
	setsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
	setsockopt(s, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
	len = fread(config, 1, in_message ? 65500 : sizeof(config), file);
	header->nlmsg_len = NLMSG_LENGTH(sizeof(*tc));
	header->nlmsg_type = RTM_NEWQDISC;
	header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	if (!strcmp(argv[3], "add"))
		header->nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
	if (below) {
		*below = 0;
		if (sscanf(below + 1, "%x:%x", &major, &minor) != 2)
			return 2;
	}
	tc->tcm_ifindex = (int)if_nametoindex(argv[2]);
	tc->tcm_handle = 0x10000;
	tc->tcm_parent = below ? major << 16 | minor : TC_H_ROOT;
	attribute(message, TCA_KIND, "fairlink", 9);
	options = attribute(message, TCA_OPTIONS | NLA_F_NESTED, NULL, 0);
	if (in_message)
		attribute(message, 1, config, len);
	if (strcmp(by, "message")) {
		int fd = handed(by, config, len);

		if (fd < 0)
			die(by);
		attribute(message, 2, &fd, !strcmp(by, "short") ? 2 : 4);
	}
	options->nla_len = (unsigned short)(message + header->nlmsg_len - (char *)options);
	if (send(s, message, header->nlmsg_len, 0) < 0)
		die("send");
	if (recv(s, message, sizeof(message), 0) < 0)
		die("recv");
	error = -((struct nlmsgerr *)NLMSG_DATA(header))->error;
	printf("TOLD %d", error);
	if (error && header->nlmsg_flags & NLM_F_ACK_TLVS) {
		struct nlattr *text = (struct nlattr *)((char *)NLMSG_DATA(header) + sizeof(struct nlmsgerr));

		if (text->nla_type == NLMSGERR_ATTR_MSG)
			printf(" %.*s", text->nla_len - NLA_HDRLEN, (char *)text + NLA_HDRLEN);
	}
	printf("\n");
	return error != 0;
}

int main(int argc, char **argv)
{
	if (argc > 6 && !strcmp(argv[1], "rates"))
		return rates(argc, argv);
	if (argc == 6 && !strcmp(argv[1], "order"))
		return order(argv);
	if (argc == 6 && !strcmp(argv[1], "flood"))
		return flood(argv);
	if (argc == 4 && !strcmp(argv[1], "frame"))
		return one_frame(argv);
	if ((argc == 5 || argc == 6) && !strcmp(argv[1], "tell"))
		return tell(argc, argv);
	fprintf(stderr, "usage: see the head of traffic.c\n");
	return 2;
}
