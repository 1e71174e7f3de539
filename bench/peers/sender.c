/*
 * What sending a frame through an interface's queueing discipline takes, in nanoseconds of the sending thread: scripts/peers compares
 * the kernel's HTB with pfifo by it.
 *
 * usage: sender INTERFACE CLASSES MAJOR
 * There is a packet socket for each class, whose priority is the class's handle MAJOR:2, MAJOR:3 ..., so that HTB needs no filters. Frames of
 * 64 B of a protocol that nobody takes go through sockets in random order. Prints the median of several rounds.
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 7, FRAMES = 10000, FRAME = 64, PROTOCOL = 0x88B5 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: sender INTERFACE CLASSES MAJOR\n");
		return 2;
	}
	unsigned int interface = if_nametoindex(argv[1]);
	uint32_t classes = (uint32_t)strtoul(argv[2], NULL, 10), major = (uint32_t)strtoul(argv[3], NULL, 16);
	if (interface == 0)
		fail(argv[1]);
	struct rlimit files = {classes + 64, classes + 64};
	if (setrlimit(RLIMIT_NOFILE, &files) != 0)
		fail("setrlimit");
	int *sockets = malloc(classes * sizeof(*sockets));
	if (sockets == NULL)
		fail("malloc");
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)interface};
	for (uint32_t n = 0; n < classes; n++) {
		uint32_t priority = (major << 16) | (n + 2);
		sockets[n] = socket(AF_PACKET, SOCK_RAW, 0);
		if (sockets[n] < 0 || bind(sockets[n], (struct sockaddr *)&to, sizeof(to)) != 0)
			fail("socket");
		if (setsockopt(sockets[n], SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)) != 0)
			fail("SO_PRIORITY");
	}
	unsigned char frame[FRAME] = {2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, PROTOCOL >> 8, PROTOCOL & 0xFF};
	uint64_t random = UINT64_C(0x9E3779B97F4A7C15);
	double rounds[ROUNDS + 1];
	for (int round = 0; round <= ROUNDS; round++) {
		struct timespec start, end;
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (int n = 0; n < FRAMES; n++) {
			random ^= random >> 12;
			random ^= random << 25;
			random ^= random >> 27;
			uint32_t class = (uint32_t)(((random >> 32) * classes) >> 32);
			if (send(sockets[class], frame, FRAME, 0) != FRAME)
				fail("send");
		}
		clock_gettime(CLOCK_MONOTONIC, &end);
		double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
		rounds[round] = ns / FRAMES;
	}
	/* The first round warms up. */
	qsort(rounds + 1, ROUNDS, sizeof(double), compare);
	printf("%.1f\n", rounds[1 + ROUNDS / 2]);
	return 0;
}
