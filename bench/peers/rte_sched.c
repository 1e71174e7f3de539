/*
 * What a packet costs under DPDK's hierarchical scheduler (librte_sched), under the workloads of crates/workload: packets go round between the
 * scheduler and a pool of those on their way, in which a packet sent takes a random place and the one that was there arrives.
 *
 * A queue here is one of the four best-effort queues of a pipe, so all queues share by weight; the twelve traffic classes of strict priority are
 * off. A pipe's ceiling (its token bucket) is twice what it gets, as in `ceilings` of crates/workload. A packet is an mbuf, whose first line the
 * scheduler reads: `record` of crates/workload is its counterpart.
 *
 * usage: rte_sched [EAL options] -- QUEUES backlogged|sparse|churn
 * Prints: rte_sched PATTERN QUEUES NS NET_NS REFERENCE_NS, medians, per packet; the harness is taken off in NET_NS, and REFERENCE_NS is that on a clock of
 * 2.5 GHz, by the clock measured before, as crates/workload/src/calibrate.rs does.
 *
 * Written from the documentation of the functions that it calls.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_sched.h>

enum {
	BATCH = 32,
	ROUNDS = 9,
	PACKETS = 200000,
	LENGTH = 1500,
	/* Queues of a pipe that are used. */
	OF_PIPE = RTE_SCHED_BE_QUEUES_PER_PIPE,
	BEST_EFFORT = RTE_SCHED_TRAFFIC_CLASS_BE,
};
/*
 * 1 Tbit/s in bytes per second. The scheduler goes by the processor's clock, so a link must be faster than it can be served, or the clock would be
 * measured. Token buckets are filled and emptied for each packet all the same.
 */
static const uint64_t RATE = UINT64_C(125000000000);

/* Where a packet goes: the identifier that the scheduler keeps of a queue. */
struct workload {
	struct rte_sched_port *port; /* none: the harness alone */
	struct rte_mbuf **queued;    /* for the harness: packets in a random order */
	size_t queued_count, next;
	uint32_t *away;
	size_t away_count;
	uint64_t random;
};

static void fail(const char *what)
{
	fprintf(stderr, "rte_sched: %s\n", what);
	exit(1);
}

static size_t below(uint64_t *state, size_t limit)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (size_t)(((unsigned __int128)(*state * UINT64_C(0x2545F4914F6CDD1D)) * limit) >> 64);
}

static void shuffle(uint32_t *items, size_t count, uint64_t *random)
{
	for (size_t last = count; last > 1; last--) {
		size_t other = below(random, last);
		uint32_t item = items[last - 1];
		items[last - 1] = items[other];
		items[other] = item;
	}
}

static struct rte_sched_port *make_port(uint32_t pipes, uint64_t ceiling, uint16_t depth)
{
	struct rte_sched_subport_profile_params whole = {
		.tb_rate = RATE, .tb_size = 1000000, .tc_period = 10,
	};
	struct rte_sched_pipe_params pipe = {
		.tb_rate = ceiling, .tb_size = 64 * LENGTH, .tc_period = 40, .tc_ov_weight = 1,
	};
	for (int tc = 0; tc < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; tc++)
		whole.tc_rate[tc] = RATE;
	pipe.tc_rate[BEST_EFFORT] = ceiling;
	for (int queue = 0; queue < OF_PIPE; queue++)
		pipe.wrr_weights[queue] = 1;
	struct rte_sched_port_params link = {
		.name = "bench", .socket = 0, .rate = RATE, .mtu = LENGTH, .frame_overhead = 0,
		.n_subports_per_port = 1, .subport_profiles = &whole, .n_subport_profiles = 1,
		.n_max_subport_profiles = 1, .n_pipes_per_subport = pipes,
	};
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = pipes, .pipe_profiles = &pipe, .n_pipe_profiles = 1,
		.n_max_pipe_profiles = 1,
	};
	subport.qsize[BEST_EFFORT] = depth;
	struct rte_sched_port *port = rte_sched_port_config(&link);
	if (port == NULL || rte_sched_subport_config(port, 0, &subport, 0) != 0)
		fail("the port cannot be configured");
	for (uint32_t n = 0; n < pipes; n++)
		if (rte_sched_pipe_config(port, 0, n, 0) != 0)
			fail("a pipe cannot be configured");
	return port;
}

/* Sends and receives PACKETS packets; returns nanoseconds of each. */
static double run(struct workload *load)
{
	struct rte_mbuf *batch[BATCH];
	struct timespec start, end;
	uint64_t done = 0;
	unsigned int idle = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	while (done < PACKETS) {
		int sent;
		if (load->port != NULL) {
			sent = rte_sched_port_dequeue(load->port, batch, BATCH);
			/* A ceiling may hold everything back for a moment. */
			if (sent <= 0) {
				if (++idle > 100000000)
					fail("sent nothing while packets were queued");
				continue;
			}
		} else {
			size_t left = load->queued_count - load->next;
			sent = left < BATCH ? (int)left : BATCH;
			memcpy(batch, load->queued + load->next, (size_t)sent * sizeof(*batch));
			load->next = left <= BATCH ? 0 : load->next + BATCH;
		}
		for (int n = 0; n < sent; n++) {
			size_t place = below(&load->random, load->away_count);
			uint32_t queue = rte_mbuf_sched_queue_get(batch[n]);
			rte_mbuf_sched_queue_set(batch[n], load->away[place]);
			load->away[place] = queue;
		}
		if (load->port != NULL) {
			if (rte_sched_port_enqueue(load->port, batch, (uint32_t)sent) != sent)
				fail("dropped a packet that there was room for");
		} else {
			__asm__ volatile("" : : "r"(batch) : "memory");
		}
		done += (uint64_t)sent;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
	return ns / (double)done;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The clock in GHz: a chain of six operations of a cycle each, the best of five runs. */
static double clock_ghz(void)
{
	uint64_t x = UINT64_C(0x9E3779B97F4A7C15);
	double best = 0;

	for (int run = 0; run < 5; run++) {
		struct timespec start, end;
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (int step = 0; step < 1000000; step++) {
			x ^= x >> 12;
			x ^= x << 25;
			x ^= x >> 27;
		}
		__asm__ volatile("" : "+r"(x));
		clock_gettime(CLOCK_MONOTONIC, &end);
		double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
		if (6e6 / ns > best)
			best = 6e6 / ns;
	}
	return best;
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);
	if (used < 0)
		fail("the environment cannot be set up");
	argc -= used;
	argv += used;
	if (argc != 3)
		fail("usage: rte_sched [EAL options] -- QUEUES backlogged|sparse|churn");
	uint32_t queues = (uint32_t)strtoul(argv[1], NULL, 10);
	bool sparse = strcmp(argv[2], "sparse") == 0, churn = strcmp(argv[2], "churn") == 0;
	if (!sparse && !churn && strcmp(argv[2], "backlogged") != 0)
		fail("the pattern is backlogged, sparse or churn");
	if (queues < OF_PIPE || (queues & (queues - 1)) != 0)
		fail("the number of queues is a power of two from 4");

	/* The numbers of crates/workload/src/shape.rs. */
	uint32_t senders = sparse ? (queues / 100 > 0 ? queues / 100 : 1) : queues;
	uint32_t each = churn ? 1 : (16 * BATCH + senders - 1) / senders;
	if (!churn && each < 4)
		each = 4;
	size_t total = (size_t)senders * each;
	size_t away = total / (churn ? 2 : 16);
	uint16_t depth = 4;
	while (depth < each)
		depth = (uint16_t)(depth * 2);
	uint64_t ceiling = 2 * RATE * OF_PIPE / senders;
	if (ceiling > RATE)
		ceiling = RATE;

	struct workload load = {.random = UINT64_C(0x9E3779B97F4A7C15), .away_count = away, .queued_count = total - away};
	load.port = make_port(queues / OF_PIPE, ceiling, depth);
	uint32_t *chosen = malloc(queues * sizeof(*chosen)), *places = malloc(total * sizeof(*places));
	load.away = malloc(away * sizeof(*load.away));
	load.queued = malloc(load.queued_count * sizeof(*load.queued));
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("packets", (unsigned int)load.queued_count, 0, 0, 0, SOCKET_ID_ANY);
	if (chosen == NULL || places == NULL || load.away == NULL || load.queued == NULL || pool == NULL)
		fail("no memory");
	for (uint32_t n = 0; n < queues; n++)
		chosen[n] = n;
	shuffle(chosen, queues, &load.random);
	for (size_t n = 0; n < total; n++)
		places[n] = chosen[n % senders];
	shuffle(places, total, &load.random);

	uint32_t *order = malloc(load.queued_count * sizeof(*order));
	struct rte_mbuf **all = malloc(load.queued_count * sizeof(*all));
	if (order == NULL || all == NULL || rte_pktmbuf_alloc_bulk(pool, all, (unsigned int)load.queued_count) != 0)
		fail("no memory");
	for (size_t n = 0; n < load.queued_count; n++)
		order[n] = (uint32_t)n;
	shuffle(order, load.queued_count, &load.random);
	for (size_t n = 0; n < total; n++) {
		struct rte_mbuf *packet = n < away ? all[0] : all[order[n - away]];
		packet->pkt_len = LENGTH;
		packet->data_len = LENGTH;
		rte_sched_port_pkt_write(load.port, packet, 0, places[n] / OF_PIPE, BEST_EFFORT, places[n] % OF_PIPE,
					 RTE_COLOR_GREEN);
		/* The first packets only tell what their queues are called. */
		if (n < away)
			load.away[n] = rte_mbuf_sched_queue_get(packet);
		else
			load.queued[n - away] = packet;
	}

	struct workload harness = load;
	harness.port = NULL;
	harness.away = malloc(away * sizeof(*load.away));
	if (harness.away == NULL)
		fail("no memory");
	memcpy(harness.away, load.away, away * sizeof(*load.away));
	double gross[ROUNDS], bare[ROUNDS];
	for (int n = 0; n < ROUNDS; n++)
		bare[n] = run(&harness);
	/* The harness has mixed up who is where: each packet is of the queue that it is put into now. */
	for (size_t n = 0; n < load.queued_count; n++) {
		rte_sched_port_pkt_write(load.port, load.queued[n], 0, places[away + n] / OF_PIPE, BEST_EFFORT,
					 places[away + n] % OF_PIPE, RTE_COLOR_GREEN);
		if (rte_sched_port_enqueue(load.port, &load.queued[n], 1) != 1)
			fail("dropped a packet that there was room for");
	}
	for (size_t done = 0; done <= total; done += PACKETS)
		run(&load);
	double ghz = clock_ghz();
	for (int n = 0; n < ROUNDS; n++)
		gross[n] = run(&load);
	qsort(gross, ROUNDS, sizeof(double), compare);
	qsort(bare, ROUNDS, sizeof(double), compare);
	double net = gross[ROUNDS / 2] - bare[ROUNDS / 2];
	printf("rte_sched %s %" PRIu32 " %.1f %.1f %.1f\n", argv[2], queues, gross[ROUNDS / 2], net, net * ghz / 2.5);
	return 0;
}
