/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incident.h - joins anomalies that share a cause into incidents. Alerts and the page report
 * incidents, each with one cause, one start and one end. Pure: callers pass the time.
 *
 * An anomaly joins an open incident if it overlaps it in time, or begins at most settle_ns after
 * it, and is related to one of its members:
 * - the same pod, or the same service;
 * - one of the two services calls the other (act_incidents_call()). If an anomaly is related to two
 *   incidents, they are merged into the older one;
 * - the host, its containers and the connections of its workloads join an incident on their host.
 *   Other pods join because of their host only if the host is the cause, or if the incident has
 *   only such members so far, and only if their anomalies begin within settle_ns of the incident's
 *   start: otherwise all faults on a host would be merged.
 * Otherwise it opens an incident. An incident ends when all its members have ended, except those
 * that joined because of their host, and settle_ns has passed.
 *
 * The cause of an incident is the member with the strongest evidence. It may change while the
 * incident is open.
 *
 * An incident is load if the blamed metrics of all members moved no more than the requests did.
 * Load is information, not a fault. An incident that has been reported as a fault remains a fault.
 *
 * Threads: one thread, the keeper, feeds and polls; any thread may read incidents or
 * call act_incidents_call().
 */
#ifndef SL_ACT_INCIDENT_H
#define SL_ACT_INCIDENT_H

#include "act/verdict.h"

#define ACT_MEMBERS	   64u /* maximum number of listed members per incident */
#define ACT_SENTENCE_BYTES 1024u
#define ACT_LOAD_MOVED	   1.5 /* a smaller change in the number of requests is normal */

enum act_incident_kind { ACT_INCIDENT_FAULT, ACT_INCIDENT_LOAD };
extern const char *const act_incident_kinds[]; /* "fault", "load" */

/* A pod, with all of its anomalies in the incident. */
struct act_member {
	uint64_t instance;
	struct act_pod_name name;
	uint64_t first, anomaly; /* IDs of its first and its newest anomaly */
	uint32_t anomalies;
	int64_t begin_ns, last_ns; /* start of the first anomaly; last finding of the newest one */
	int64_t end_ns;		   /* 0 while the newest anomaly continues */
	double peak, suspicion;	   /* maxima over all anomalies */
	bool died;		   /* its process has ended */
};

struct act_incident {
	uint64_t number; /* 1, 2, ... in the order of listing */
	/* event ID of its first anomaly; usually the same at all collectors that read the pod */
	char id[ACT_EVENT_ID_BYTES];
	enum act_incident_kind kind;
	struct act_anomaly cause; /* the member with the strongest evidence */
	/*
	 * the cause that receivers were first told, for the labels of alerts, which must not change
	 */
	struct act_pod_name told_cause;
	int64_t begin_ns, last_ns; /* first and last anomalous finding of all members */
	int64_t end_ns;		   /* last_ns once the incident has ended; 0 while it is open */
	/* number and id of the incident that it was merged into; 0 and "" if it was not merged */
	uint64_t joined;
	char part_of[ACT_EVENT_ID_BYTES];
	double load; /* requests now divided by the usual requests; 0 if not known */
	bool called; /* another service is known to call the cause */
	bool has_trace;
	/* trace kept because of the cause, or of another member */
	uint8_t trace[ACT_TRACE_ID_BYTES];
	char sentence[ACT_SENTENCE_BYTES]; /* see explain.h */
	uint32_t members, left_out;	   /* number of listed members, and of members left out */
	struct act_member member[ACT_MEMBERS];
};

struct act_incidents_opts {
	uint64_t settle_ns; /* 0 means 10 s */
	/*
	 * Time from the opening of an incident until receivers are told, in which its cause and
	 * kind become clear. 0 means 3 s.
	 */
	uint64_t confirm_ns;
	uint64_t again_ns; /* interval between reports of ACT_NEWS_AGAIN; 0 means 60 s */
	/*
	 * Maximum number of open incidents, shared among tenants (base/share.h): one tenant can
	 * hold at most half. 0 means 64.
	 */
	size_t max_open;
	size_t max_listed; /* length of the list; must exceed max_open; 0 means 256 */
};

struct act_incidents;

/* Returns NULL with errno ENOMEM on failure. */
struct act_incidents *act_incidents_new(const struct act_incidents_opts *opts);
void act_incidents_free(struct act_incidents *s);

/* ---- the keeper ---- */

/* A service that calls another, or is called. */
struct act_call_end {
	const char *service, *owner; /* owner: as in act_pod_name */
	/*
	 * The kernel names the service. It may not know the owner, so the service may be that of
	 * any pod of this name.
	 */
	bool kernel;
};
/*
 * Notes that one service calls another. This is forgotten after ten minutes without another call.
 */
void act_incidents_call(struct act_incidents *s, const struct act_call_end *caller,
			const struct act_call_end *callee, int64_t now_ns);
/* Call for each change that act_verdicts_keep() reports. */
void act_incidents_take(struct act_incidents *s, const struct act_anomaly *a, int64_t now_ns);

enum act_news {
	ACT_NEWS_BEGAN = 1,   /* reported for the first time with this kind */
	ACT_NEWS_CHANGED = 2, /* the cause changed, or a first trace was kept */
	ACT_NEWS_AGAIN = 4,   /* again_ns have passed since the last news */
	ACT_NEWS_ENDED = 8,
};
/*
 * Ends incidents, and reports those with news, a set of enum act_news. `tell` must be short and
 * must not call into s.
 */
void act_incidents_poll(struct act_incidents *s, int64_t now_ns,
			void (*tell)(const struct act_incident *i, unsigned int news, void *arg),
			void *arg);

/* ---- readers ---- */

/*
 * Visits the incidents with numbers above `after`, newest first, until fn returns false. fn must be
 * short and must not call into s.
 */
void act_incidents_each(struct act_incidents *s, uint64_t after,
			bool (*fn)(const struct act_incident *i, void *arg), void *arg);
/* Finds the incident of an anomaly. Returns false if there is none, or it is no longer listed. */
bool act_incidents_id(struct act_incidents *s, const struct act_anomaly *a,
		      char id[ACT_EVENT_ID_BYTES]);
/*
 * Returns true if a pod's anomaly is due to load, or may be and is not decided yet. Then the pod is
 * not notified, and scaling ignores the anomaly.
 */
bool act_incidents_is_load(struct act_incidents *s, uint64_t instance);

struct act_incidents_stats {
	uint64_t open_faults, open_loads; /* now */
	uint64_t faults, loads;		  /* total number reported */
	/* anomalies without an incident at first, because too many were open */
	uint64_t refused;
	uint64_t left_out;	 /* anomalies that are not listed as members */
	uint64_t forgotten;	 /* incidents dropped from the list for newer ones */
	uint64_t calls_left_out; /* pairs of services beyond the limit */
};
void act_incidents_stats(struct act_incidents *s, struct act_incidents_stats *out);

#endif
