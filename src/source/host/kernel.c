// SPDX-License-Identifier: Apache-2.0
/*
 * kernel.c - reads system-wide limits and counters of the kernel, the state of its clock, and
 * uname(2).
 */
#include <string.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "source/host/internal.h"

enum {
	FD_ALLOCATED,
	FD_MAXIMUM,
	ENTROPY,
	POOL,
	TRACKED,
	TRACKED_LIMIT,
	TRACK_FIRST,
	TRACKS = 8,
	TIME = TRACK_FIRST + TRACKS,
};

#define GAUGE(name, help) HOST_DESC("node_" name, help, HOST_GAUGE)
#define TRACK(name, help) HOST_DESC("node_nf_conntrack_stat_" name, help, HOST_GAUGE)

static const struct host_desc one_descs[] = {
	[FD_ALLOCATED] = GAUGE("filefd_allocated", "File descriptor statistics: allocated."),
	[FD_MAXIMUM] = GAUGE("filefd_maximum", "File descriptor statistics: maximum."),
	[ENTROPY] = GAUGE("entropy_available_bits", "Bits of available entropy."),
	[POOL] = GAUGE("entropy_pool_size_bits", "Bits of entropy pool."),
	[TRACKED] = GAUGE("nf_conntrack_entries",
			  "Number of currently allocated flow entries for connection tracking."),
	[TRACKED_LIMIT] = GAUGE("nf_conntrack_entries_limit",
				"Maximum size of connection tracking table."),
	[TRACK_FIRST] = TRACK("found", "Number of searched entries which were successful."),
	TRACK("invalid", "Number of packets seen which can not be tracked."),
	TRACK("ignore", "Number of packets seen which are already connected to a conntrack entry."),
	TRACK("insert", "Number of entries inserted into the list."),
	TRACK("insert_failed",
	      "Number of entries for which list insertion was attempted but failed."),
	TRACK("drop", "Number of packets dropped due to conntrack failure."),
	TRACK("early_drop", "Number of dropped conntrack entries to make room for new ones, if "
			    "maximum table size was reached."),
	TRACK("search_restart", "Number of conntrack table lookups which had to be restarted due "
				"to hashtable resizes."),
	[TIME] = GAUGE("time_seconds", "System time in seconds since epoch (1970)."),
};

/* ---- files of one or two numbers ---- */

void host_filefd_parse(struct host *h, struct host_text t)
{
	struct host_group *g = &h->kernel.one;
	struct host_row *r = host_row(g, NULL);
	double v[3];
	size_t n = 0;

	while (n < 3 && host_number(&t, &v[n]))
		n++;
	if (n < 3)
		return;
	host_put(g, r, FD_ALLOCATED, v[0]);
	host_put(g, r, FD_MAXIMUM, v[2]);
}

static void put_number(struct host *h, struct host_group *g, size_t i, struct host_file *f)
{
	struct host_text t;
	double v;

	if (!host_file_read(h, f))
		return;
	t = host_contents(f);
	if (host_number(&t, &v))
		host_put(g, host_row(g, NULL), i, v);
}

/* Sums hexadecimal columns over all lines; there is one line per processor. */
void host_conntrack_parse(struct host *h, struct host_text t)
{
	static const uint8_t columns[TRACKS] = {2, 4, 5, 8, 9, 10, 11, 16};
	struct host_group *g = &h->kernel.one;
	struct host_row *r = host_row(g, NULL);
	uint64_t sum[TRACKS] = {0};
	struct host_text line;
	bool any = false;

	host_line(&t, &line);
	while (host_line(&t, &line)) {
		uint64_t v[17] = {0};
		size_t n = 0;

		while (n < HOST_LEN(v) && host_hex(&line, &v[n]))
			n++;
		any |= n == HOST_LEN(v);
		for (size_t i = 0; n == HOST_LEN(v) && i < TRACKS; i++)
			sum[i] += v[columns[i]];
	}
	for (size_t i = 0; any && i < TRACKS; i++)
		host_put(g, r, TRACK_FIRST + i, (double)sum[i]);
}

/* ---- ARP and UDP ---- */

static const struct host_desc arp_descs[] = {
	GAUGE("arp_entries", "ARP entries by device"),
};
static const char *const arp_keys[] = {"device"};

void host_arp_parse(struct host *h, struct host_text t)
{
	struct host_group *g = host_group(h, &h->kernel.arp, arp_descs, 1, arp_keys, 1);
	struct host_text line, word;

	/* The ARP entries of a device need not be adjacent. */
	for (size_t i = 0; i < g->count; i++)
		g->rows[i]->count = 0;
	host_line(&t, &line);
	while (host_line(&t, &line)) {
		struct host_row *r;

		for (int i = 0; i < 6; i++)
			word = host_word(&line);
		r = host_length(word) ? host_row(g, &word) : NULL;
		if (r)
			r->count++;
	}
	for (size_t i = 0; i < g->count; i++)
		if (g->rows[i]->seen)
			host_put(g, g->rows[i], 0, (double)g->rows[i]->count);
	host_group_end(g);
}

#define QUEUE(ip, queue)                                                                  \
	HOST_DESC("node_udp_queues",                                                      \
		  "Number of allocated memory in the kernel for UDP datagrams in bytes.", \
		  HOST_GAUGE, .key = {"ip", "queue"}, .value = {ip, queue})

static const struct host_desc udp_descs[] = {QUEUE("v4", "tx"), QUEUE("v4", "rx"),
					     QUEUE("v6", "tx"), QUEUE("v6", "rx")};

/* Sums up the fifth column, "TX:RX" in hexadecimal. */
void host_udp_parse(struct host_group *g, bool v6, struct host_text t)
{
	struct host_row *r = host_row(g, NULL);
	uint64_t tx = 0, rx = 0, v;
	struct host_text line, word;

	host_line(&t, &line);
	while (host_line(&t, &line)) {
		for (int i = 0; i < 5; i++)
			word = host_word(&line);
		if (!host_hex(&word, &v))
			continue;
		tx += v;
		if (word.p < word.end && *word.p++ == ':' && host_hex(&word, &v))
			rx += v;
	}
	host_put(g, r, v6 ? 2 : 0, (double)tx);
	host_put(g, r, v6 ? 3 : 1, (double)rx);
}

/* ---- names ---- */

static const struct host_desc uname_descs[] = {
	GAUGE("uname_info", "Labeled system information as provided by the uname system call."),
};
static const char *const uname_keys[] = {"sysname", "release",	"version",
					 "machine", "nodename", "domainname"};

static void put_uname(struct host_group *g)
{
	struct utsname u;

	if (uname(&u))
		return;
	host_put(g,
		 host_row(g,
			  (const struct host_text[]){
				  host_text_of(u.sysname), host_text_of(u.release),
				  host_text_of(u.version), host_text_of(u.machine),
				  host_text_of(u.nodename), host_text_of(u.domainname)}),
		 0, 1);
	host_group_end(g);
}

/* Keys of os-release(5), sorted, in lower case. */
static const char *const os_keys[] = {"build_id",      "id",	  "id_like",	      "image_id",
				      "image_version", "name",	  "pretty_name",      "variant",
				      "variant_id",    "version", "version_codename", "version_id"};
enum { OS_ID = 1, OS_LIKE = 2, OS_NAME = 5, OS_VERSION_ID = 11 };

static const struct host_desc os_descs[] = {
	GAUGE("os_info",
	      "A metric with a constant '1' value labeled by build_id, id, id_like, image_id, "
	      "image_version, name, pretty_name, variant, variant_id, version, version_codename, "
	      "version_id."),
};
static const char *const os_version_keys[] = {"id", "id_like", "name"};
static const struct host_desc os_version_descs[] = {
	GAUGE("os_version", "Metric containing the major.minor part of the OS version."),
};

/* Removes quotes, and backslashes inside double quotes, as described in os-release(5). */
static struct host_text unquote(struct host_text t, char *to, size_t bytes)
{
	char quote = t.p < t.end && (*t.p == '"' || *t.p == '\'') ? *t.p++ : 0;
	size_t n = 0;

	for (; t.p < t.end && n < bytes && !(quote && *t.p == quote); t.p++) {
		if (*t.p == '\\' && quote != '\'' && t.p + 1 < t.end)
			t.p++;
		to[n++] = *t.p;
	}
	return host_text(to, n);
}

static bool is_upper_of(struct host_text upper, const char *lower)
{
	size_t n = strlen(lower);

	for (size_t i = 0; host_length(upper) == n && i < n; i++)
		if (upper.p[i] != (lower[i] == '_' ? '_' : lower[i] - 'a' + 'A'))
			return false;
	return host_length(upper) == n;
}

void host_os_parse(struct host_kernel *k, struct host_text t)
{
	static char text[HOST_LEN(os_keys)][256];
	struct host_text v[HOST_LEN(os_keys)], line, key;
	double version;

	for (size_t i = 0; i < HOST_LEN(v); i++)
		v[i] = host_text("", 0);
	while (host_line(&t, &line)) {
		if (!host_until(&line, '=', &key))
			continue;
		for (size_t i = 0; i < HOST_LEN(v); i++)
			if (is_upper_of(key, os_keys[i]))
				v[i] = unquote(line, text[i], sizeof(text[i]));
	}
	host_put(&k->os, host_row(&k->os, v), 0, 1);
	host_group_end(&k->os);
	key = v[OS_VERSION_ID];
	if (host_number(&key, &version))
		host_put(&k->os_version,
			 host_row(&k->os_version,
				  (const struct host_text[]){v[OS_ID], v[OS_LIKE], v[OS_NAME]}),
			 0, version);
	host_group_end(&k->os_version);
}

static void put_os(struct host *h, struct host_kernel *k)
{
	static const char *const paths[] = {"/etc", "/usr/lib"};
	char text[8192];
	ssize_t n = -1;

	for (size_t i = 0; i < HOST_LEN(paths) && n < 0; i++) {
		int folder = host_folder(h, paths[i]);

		if (folder < 0)
			continue;
		n = host_read_at(folder, "os-release", text, sizeof(text));
		close(folder);
	}
	if (n > 0)
		host_os_parse(k, host_text(text, (size_t)n));
}

/* ---- clocks ---- */

static const struct host_desc zone_descs[] = {
	GAUGE("time_zone_offset_seconds", "System time zone offset in seconds."),
};
static const char *const zone_keys[] = {"time_zone"};
static const char *const clock_keys[] = {"device", "clocksource"};
static const struct host_desc clock_now_descs[] = {
	GAUGE("time_clocksource_current_info",
	      "Current clocksource read from '/sys/devices/system/clocksource'."),
};
static const struct host_desc clock_all_descs[] = {
	GAUGE("time_clocksource_available_info",
	      "Available clocksources read from '/sys/devices/system/clocksource'."),
};

static void put_sources(struct host_group *g, int folder, const char *file)
{
	char text[512];
	struct host_text line = host_value_at(folder, file, text, sizeof(text)), word;

	while (word = host_word(&line), host_length(word))
		host_put(g, host_row(g, (const struct host_text[]){host_text("0", 1), word}), 0, 1);
	host_group_end(g);
}

static void put_clocks(struct host *h, struct host_kernel *k)
{
	int folder = host_folder(h, "/sys/devices/system/clocksource/clocksource0");
	time_t now = time(NULL);
	struct tm tm;

	if (folder >= 0) {
		put_sources(&k->clock_now, folder, "current_clocksource");
		put_sources(&k->clock_all, folder, "available_clocksource");
		close(folder);
	}
	if (!localtime_r(&now, &tm))
		return;
	host_put(&k->zone, host_row(&k->zone, (const struct host_text[]){host_text_of(tm.tm_zone)}),
		 0, (double)tm.tm_gmtoff);
	host_group_end(&k->zone);
}

#define TIMEX(name, help, type) HOST_DESC("node_timex_" name, help, type)

static const struct host_desc timex_descs[] = {
	TIMEX("sync_status", "Is clock synchronized to a reliable server (1 = yes, 0 = no).",
	      HOST_GAUGE),
	TIMEX("offset_seconds", "Time offset in between local system and reference clock.",
	      HOST_GAUGE),
	TIMEX("frequency_adjustment_ratio", "Local clock frequency adjustment.", HOST_GAUGE),
	TIMEX("maxerror_seconds", "Maximum error in seconds.", HOST_GAUGE),
	TIMEX("estimated_error_seconds", "Estimated error in seconds.", HOST_GAUGE),
	TIMEX("status", "Value of the status array bits.", HOST_GAUGE),
	TIMEX("loop_time_constant", "Phase-locked loop time constant.", HOST_GAUGE),
	TIMEX("tick_seconds", "Seconds between clock ticks.", HOST_GAUGE),
	TIMEX("pps_frequency_hertz", "Pulse per second frequency.", HOST_GAUGE),
	TIMEX("pps_jitter_seconds", "Pulse per second jitter.", HOST_GAUGE),
	TIMEX("pps_shift_seconds", "Pulse per second interval duration.", HOST_GAUGE),
	TIMEX("pps_stability_hertz",
	      "Pulse per second stability, average of recent frequency changes.", HOST_GAUGE),
	TIMEX("pps_jitter_total", "Pulse per second count of jitter limit exceeded events.",
	      HOST_COUNTER),
	TIMEX("pps_calibration_total", "Pulse per second count of calibration intervals.",
	      HOST_COUNTER),
	TIMEX("pps_error_total", "Pulse per second count of calibration errors.", HOST_COUNTER),
	TIMEX("pps_stability_exceeded_total",
	      "Pulse per second count of stability limit exceeded events.", HOST_COUNTER),
	TIMEX("tai_offset_seconds", "International Atomic Time (TAI) offset.", HOST_GAUGE),
};

/* See adjtimex(2) for the units. Frequencies are in ppm with a 16-bit fraction. */
static void put_timex(struct host_group *g)
{
	const double parts = 65536.0 * 1e6, us = 1e6;
	struct timex t = {.modes = 0};
	int state = adjtimex(&t);
	double fine = t.status & STA_NANO ? 1e9 : 1e6;
	struct host_row *r = host_row(g, NULL);
	const double v[HOST_LEN(timex_descs)] = {
		state != TIME_ERROR,
		(double)t.offset / fine,
		1 + (double)t.freq / parts,
		(double)t.maxerror / us,
		(double)t.esterror / us,
		t.status,
		(double)t.constant,
		(double)t.tick / us,
		(double)t.ppsfreq / parts,
		(double)t.jitter / fine,
		t.shift,
		(double)t.stabil / parts,
		(double)t.jitcnt,
		(double)t.calcnt,
		(double)t.errcnt,
		(double)t.stbcnt,
		t.tai,
	};

	for (size_t i = 0; state >= 0 && i < HOST_LEN(v); i++)
		host_put(g, r, i, v[i]);
}

/* ---- all ---- */

void host_kernel_open(struct host *h, struct host_kernel *k)
{
	host_group(h, &k->one, one_descs, HOST_LEN(one_descs), NULL, 0);
	host_group(h, &k->info, uname_descs, 1, uname_keys, HOST_LEN(uname_keys));
	host_group(h, &k->os, os_descs, 1, os_keys, HOST_LEN(os_keys));
	host_group(h, &k->os_version, os_version_descs, 1, os_version_keys,
		   HOST_LEN(os_version_keys));
	host_group(h, &k->zone, zone_descs, 1, zone_keys, 1);
	host_group(h, &k->clock_now, clock_now_descs, 1, clock_keys, 2);
	host_group(h, &k->clock_all, clock_all_descs, 1, clock_keys, 2);
	host_group(h, &k->timex, timex_descs, HOST_LEN(timex_descs), NULL, 0);
	host_group(h, &k->udp, udp_descs, HOST_LEN(udp_descs), NULL, 0);
	host_file_open(h, &k->entropy, "/proc/sys/kernel/random/entropy_avail");
	host_file_open(h, &k->pool, "/proc/sys/kernel/random/poolsize");
	host_file_open(h, &k->count, "/proc/sys/net/netfilter/nf_conntrack_count");
	host_file_open(h, &k->limit, "/proc/sys/net/netfilter/nf_conntrack_max");
	host_file_open(h, &k->udp_file[0], "/proc/net/udp");
	host_file_open(h, &k->udp_file[1], "/proc/net/udp6");
}

void host_kernel_time(struct host_kernel *k)
{
	host_put(&k->one, host_row(&k->one, NULL), TIME, (double)base_realtime_ns() / 1e9);
}

void host_kernel_second(struct host *h, struct host_kernel *k)
{
	put_number(h, &k->one, ENTROPY, &k->entropy);
	put_number(h, &k->one, TRACKED, &k->count);
	put_timex(&k->timex);
}

void host_kernel_slow(struct host *h, struct host_kernel *k)
{
	put_number(h, &k->one, POOL, &k->pool);
	put_number(h, &k->one, TRACKED_LIMIT, &k->limit);
	for (size_t i = 0; i < 2; i++)
		if (host_file_read(h, &k->udp_file[i]))
			host_udp_parse(&k->udp, i, host_contents(&k->udp_file[i]));
	put_uname(&k->info);
	put_os(h, k);
	put_clocks(h, k);
}
