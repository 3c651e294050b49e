// SPDX-License-Identifier: Apache-2.0
#include "act/incident.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "base/base.h"
#include "base/hash.h"
#include "base/share.h"
#include "base/table.h"

#define SECOND_NS 1000000000ll
#define CALLS_MAX 4096u
#define CALL_NS	  (600 * SECOND_NS)
/* maximum time between the stop of a pod and the rise of load in a pod that takes over its work */
#define TAKEN_OVER_NS (10 * SECOND_NS)
#define SILENT_NS     (60 * SECOND_NS) /* a member without findings for this long has ended */

/*
 * changes that load can explain: BEYOND times the factor of the requests, and latencies up to
 * SLOWER times the usual ones
 */
#define BEYOND	    2.0
#define SLOWER	    1.5
#define SHARE_LEAST 0.05 /* metrics with a smaller share of the score do not count */
/* A service's fault also shows in its host, container and connections, so they count less. */
#define BESIDE_WEIGHT 0.5

const char *const act_incident_kinds[] = {"fault", "load"};

/* The properties of an anomaly that decide whether load explains it. */
struct incident_moves {
	double moved; /* largest |ln(now / usual)| of its metrics */
	bool slow;    /* slower than load explains, new errors, or a delay that callers show */
	bool waiting; /* more work is waiting than usual */
};

struct incident_own {
	/* moves in the newest anomaly, and in all earlier ones */
	struct incident_moves now, before;
	bool by_host; /* joined only because of its host, so it does not represent its service */
};

struct incident {
	struct act_incident i; /* number 0 means unused */
	struct incident_own own[ACT_MEMBERS];
	int64_t opened_ns, told_ns;
	uint64_t tenant;   /* tenant of the first anomaly, whose share this incident uses */
	unsigned int news; /* not reported yet */
	bool told, changed;
	enum act_incident_kind told_kind;
};

struct incident_end {
	uint64_t service, owner; /* hashes; 0 if there is no owner */
	bool kernel;
};

struct incident_call {
	struct base_node node; /* by the services of caller and callee */
	struct incident_end caller, callee;
	int64_t ns;
};

struct act_incidents {
	struct act_incidents_opts o;
	pthread_mutex_t lock;
	struct incident *list; /* max_listed */
	uint64_t last_number;
	uint64_t newest; /* highest id of an anomaly so far */
	struct base_table calls;
	int64_t forgot_ns; /* when old calls were last removed */
	struct act_incidents_stats stats;
};

struct act_incidents *act_incidents_new(const struct act_incidents_opts *opts)
{
	struct act_incidents *s = calloc(1, sizeof(*s));
	struct act_incidents_opts *o;

	if (!s)
		return NULL;
	s->o = *opts;
	o = &s->o;
	o->settle_ns = o->settle_ns ? o->settle_ns : 10 * SECOND_NS;
	o->confirm_ns = o->confirm_ns ? o->confirm_ns : 3 * SECOND_NS;
	o->again_ns = o->again_ns ? o->again_ns : 60 * SECOND_NS;
	o->max_open = o->max_open ? o->max_open : 64;
	o->max_listed = o->max_listed ? o->max_listed : 256;
	pthread_mutex_init(&s->lock, NULL);
	s->list = calloc(o->max_listed, sizeof(*s->list));
	if (base_table_init(&s->calls) && s->list)
		return s;
	act_incidents_free(s);
	errno = ENOMEM;
	return NULL;
}

void act_incidents_free(struct act_incidents *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	BASE_TABLE_EACH(&s->calls, c)
		free(c);
	base_table_free(&s->calls);
	free(s->list);
	free(s);
}

/*
 * Returns the listed incident after x in memory, or the first one if x is NULL. Returns NULL if
 * there is none.
 */
static struct incident *get_next(const struct act_incidents *s, struct incident *x)
{
	for (x = x ? x + 1 : s->list; x < s->list + s->o.max_listed; x++)
		if (x->i.number)
			return x;
	return NULL;
}

static bool is_open(const struct incident *x)
{
	return !x->i.end_ns;
}

/* ---- calls between services ---- */

static uint64_t hash_service(const char *service)
{
	return base_hash(0, service, act_service_length(service));
}

static uint64_t hash_owner(const char *owner)
{
	return *owner ? base_hash_text(0, owner) : 0;
}

static struct incident_end hash_end(const struct act_call_end *e)
{
	return (struct incident_end){hash_service(e->service), hash_owner(e->owner), e->kernel};
}

static uint64_t hash_call(uint64_t caller, uint64_t callee)
{
	return base_hash(0, (uint64_t[]){caller, callee}, 2 * sizeof(uint64_t));
}

static bool is_same_end(const struct incident_end *a, const struct incident_end *b)
{
	return a->service == b->service && a->owner == b->owner && a->kernel == b->kernel;
}

static struct incident_call *find_call(const struct act_incidents *s,
				       const struct incident_end *caller,
				       const struct incident_end *callee)
{
	struct incident_call *c = base_table_first(&s->calls,
						   hash_call(caller->service, callee->service));

	while (c && (!is_same_end(&c->caller, caller) || !is_same_end(&c->callee, callee)))
		c = base_table_next(c);
	return c;
}

static bool is_recent(const struct incident_call *c, int64_t now_ns)
{
	return c && llabs(now_ns - c->ns) < CALL_NS;
}

/* Removes old calls, at most once per second, because publishers may name many services. */
static void forget_calls(struct act_incidents *s, int64_t now_ns)
{
	if (s->forgot_ns / SECOND_NS == now_ns / SECOND_NS)
		return;
	s->forgot_ns = now_ns;
	BASE_TABLE_EACH(&s->calls, c)
		if (!is_recent((struct incident_call *)c, now_ns)) {
			base_table_remove(&s->calls, c);
			free(c);
		}
}

void act_incidents_call(struct act_incidents *s, const struct act_call_end *caller,
			const struct act_call_end *callee, int64_t now_ns)
{
	const struct incident_end from = hash_end(caller), to = hash_end(callee);
	struct incident_call *c;

	if (is_same_end(&from, &to))
		return;
	pthread_mutex_lock(&s->lock);
	c = find_call(s, &from, &to);
	if (!c && s->calls.count == CALLS_MAX)
		forget_calls(s, now_ns);
	if (!c && s->calls.count < CALLS_MAX && (c = calloc(1, sizeof(*c)))) {
		c->caller = from;
		c->callee = to;
		base_table_add(&s->calls, c, hash_call(from.service, to.service));
	}
	if (c)
		c->ns = now_ns;
	else
		s->stats.calls_left_out++;
	pthread_mutex_unlock(&s->lock);
}

/* True if the pod belongs to this service. The owner of connections may be unknown. */
static bool is_of(const struct act_pod_name *n, const struct incident_end *e)
{
	const uint64_t owner = hash_owner(n->owner);

	return hash_service(n->service) == e->service &&
	       (owner == e->owner ||
		((e->kernel || act_is_connections(n)) && (!owner || !e->owner)));
}

static bool is_called(const struct act_incidents *s, const struct act_pod_name *n, int64_t now_ns)
{
	bool called = false;

	BASE_TABLE_EACH(&s->calls, at) {
		const struct incident_call *c = (struct incident_call *)at;

		called |= is_recent(c, now_ns) && is_of(n, &c->callee);
	}
	return called;
}

static bool calls(const struct act_incidents *s, const struct act_pod_name *caller,
		  const struct act_pod_name *callee, int64_t now_ns)
{
	const struct incident_call *c = base_table_first(
		&s->calls, hash_call(hash_service(caller->service), hash_service(callee->service)));

	while (c &&
	       !(is_recent(c, now_ns) && is_of(caller, &c->caller) && is_of(callee, &c->callee)))
		c = base_table_next(c);
	return c;
}

/* ---- relations ---- */

/* True for entries that describe a pod's surroundings: hosts, containers and connections. */
static bool is_beside(const struct act_pod_name *n)
{
	return act_is_host(n) || act_is_connections(n) || (!*n->service && *n->container);
}

static bool is_same_host(const struct act_pod_name *a, const struct act_pod_name *b)
{
	return *a->host && !strcmp(a->host, b->host);
}

/*
 * True if two owners claim one service. Connections may be those of either, so they do not relate
 * the two.
 */
static bool is_rival(const struct act_pod_name *a, const struct act_pod_name *b)
{
	return !act_is_host(a) && !act_is_connections(a) && *a->service &&
	       !strcmp(a->service, b->service) && strcmp(a->owner, b->owner) != 0;
}

static bool has_rival(const struct incident *x, const struct act_pod_name *n)
{
	for (uint32_t k = 0; k < x->i.members; k++)
		if (!x->own[k].by_host && is_rival(n, &x->i.member[k].name))
			return true;
	return false;
}

static bool are_rivals(const struct incident *x, const struct incident *y)
{
	for (uint32_t k = 0; k < x->i.members; k++)
		if (!x->own[k].by_host && has_rival(y, &x->i.member[k].name))
			return true;
	return false;
}

enum relation { UNRELATED, BY_HOST, BY_SERVICE };

static bool is_related(const struct act_incidents *s, const struct act_pod_name *a,
		       const struct act_pod_name *b, int64_t now_ns)
{
	return act_is_same_service(a, b) ||
	       (*a->service && *b->service && !act_is_host(a) && !act_is_host(b) &&
		(calls(s, a, b, now_ns) || calls(s, b, a, now_ns)));
}

static enum relation relate(const struct act_incidents *s, const struct incident *x,
			    const struct act_anomaly *a, int64_t now_ns)
{
	const bool rival = has_rival(x, &a->name);
	bool host = false, alone = true;

	for (uint32_t k = 0; k < x->i.members; k++) {
		const struct act_member *m = &x->i.member[k];

		if (!x->own[k].by_host && (m->instance == a->instance ||
					   (!rival && is_related(s, &m->name, &a->name, now_ns))))
			return BY_SERVICE;
		host |= is_same_host(&m->name, &a->name);
		alone &= is_beside(&m->name);
	}
	alone |= act_is_host(&x->i.cause.name) && is_same_host(&x->i.cause.name, &a->name);
	/* A host that has long been unusual does not explain a fault that begins now. */
	alone &= llabs(a->begin_ns - x->i.begin_ns) <= (int64_t)s->o.settle_ns;
	return host && (is_beside(&a->name) ? is_open(x) : alone) ? BY_HOST : UNRELATED;
}

/* True if the anomaly overlaps the incident in time, or is at most settle_ns away from it. */
static bool is_touching(const struct act_incidents *s, const struct incident *x,
			const struct act_anomaly *a)
{
	const int64_t settle = (int64_t)s->o.settle_ns;
	bool going = false;

	for (uint32_t k = 0; k < x->i.members; k++)
		going |= is_open(x) && !x->i.member[k].end_ns && !x->own[k].by_host;
	return a->last_ns + settle >= x->i.begin_ns &&
	       (going || a->begin_ns <= x->i.last_ns + settle);
}

/* ---- load or fault ---- */

static void note_moves(struct incident_moves *m, const struct act_anomaly *a)
{
	m->moved = 0;
	m->slow = *a->callers;
	m->waiting = false;
	for (uint32_t i = 0; i < a->blames; i++) {
		const struct act_blame *b = &a->blame[i];

		if (b->share < SHARE_LEAST || !isfinite(b->value) || !isfinite(b->before))
			continue;
		switch (b->measure) {
		case ACT_MEASURE_LATENCY:
			m->slow |= b->value > SLOWER * b->before;
			break;
		case ACT_MEASURE_WAITING:
			m->waiting |= b->value > b->before;
			break;
		case ACT_MEASURE_ERRORS:
		case ACT_MEASURE_LOSSES:
		case ACT_MEASURE_PAUSES:
			m->slow |= b->value > 0 && !(b->before > 0);
			/* fall through */
		default:
			/* There is no factor if the usual or the present value is 0. */
			if (b->value > 0 && b->before > 0)
				m->moved = fmax(m->moved, fabs(log(b->value / b->before)));
			else if (b->measure == ACT_MEASURE_STOPPED ||
				 (b->before > 0 && b->measure == ACT_MEASURE_LOAD))
				m->moved = INFINITY; /* traffic that has stopped */
		}
	}
}

static void add_moves(struct incident_moves *to, const struct incident_moves *more)
{
	to->moved = fmax(to->moved, more->moved);
	to->slow |= more->slow;
	to->waiting |= more->waiting;
}

static bool has_load_moved(const struct act_incident *i)
{
	return i->load > 0 && fabs(log(i->load)) >= log(ACT_LOAD_MOVED);
}

static enum act_incident_kind find_kind(const struct incident *x)
{
	double most = fabs(log(x->i.load)) + log(BEYOND);

	if (!has_load_moved(&x->i) || x->i.load < ACT_LOAD_STOPPED)
		return ACT_INCIDENT_FAULT;
	for (uint32_t k = 0; k < x->i.members; k++) {
		struct incident_moves m = x->own[k].now;

		add_moves(&m, &x->own[k].before);
		if (m.slow || m.moved > most || (m.waiting && x->i.load < 1))
			return ACT_INCIDENT_FAULT;
	}
	return ACT_INCIDENT_LOAD;
}

/* ---- members ---- */

/* Returns true if pod a has more work because pod b of the same service has stopped. */
static bool takes_over(const struct act_anomaly *a, const struct act_anomaly *b)
{
	const struct act_fault *more = &a->fault[ACT_MEASURE_LOAD],
			       *none = &b->fault[ACT_MEASURE_STOPPED];

	return a->instance != b->instance && act_is_same_service(&a->name, &b->name) &&
	       more->begin_ns && more->risen && none->begin_ns &&
	       llabs(more->begin_ns - none->begin_ns) < TAKEN_OVER_NS;
}

static bool is_stronger(const struct act_anomaly *a, const struct act_anomaly *b)
{
	double x = a->peak * (is_beside(&a->name) ? BESIDE_WEIGHT : 1);
	double y = b->peak * (is_beside(&b->name) ? BESIDE_WEIGHT : 1);

	if (takes_over(a, b) || takes_over(b, a))
		return takes_over(b, a);
	/* Where callers are known, suspicion is evidence for one pod against all others. */
	if (fmax(a->suspicion, b->suspicion) >= 1 && a->suspicion != b->suspicion)
		return a->suspicion > b->suspicion;
	return x > y;
}

/* Adds faults that were recorded for the same pod earlier, in this anomaly or in one before it. */
static void inherit_faults(struct act_anomaly *to, const struct act_anomaly *from)
{
	for (uint32_t m = 0; m < ACT_MEASURES; m++) {
		const struct act_fault *f = &from->fault[m];
		struct act_fault *t = &to->fault[m];

		if (f->last_ns && !t->last_ns)
			*t = *f;
		else if (t->begin_ns - f->last_ns <= ACT_FAULT_OVER_NS && f->last_ns)
			t->begin_ns = BASE_MIN(t->begin_ns, f->begin_ns);
		else
			continue;
		t->led |= f->led || (m == from->now && m != to->now);
	}
	if (from->now == to->now && from->peak > to->peak) {
		to->blames = from->blames;
		memcpy(to->blame, from->blame, sizeof(to->blame));
		to->delay = from->delay;
		memcpy(to->callers, from->callers, sizeof(to->callers));
	}
	if (from->now == to->now && from->born_ns)
		to->born_ns = from->born_ns;
	to->peak = fmax(to->peak, from->peak);
	to->suspicion = fmax(to->suspicion, from->suspicion);
}

static void take_cause(struct incident *x, const struct act_anomaly *a)
{
	if (x->i.cause.id && x->i.cause.instance == a->instance) {
		struct act_anomaly before = x->i.cause;

		if (a->id < before.id)
			return;
		x->i.cause = *a;
		inherit_faults(&x->i.cause, &before);
		return;
	}
	if (x->i.cause.id && !is_stronger(a, &x->i.cause))
		return;
	if (x->i.cause.id && x->i.cause.instance != a->instance)
		x->news |= ACT_NEWS_CHANGED;
	x->i.cause = *a;
}

static void take_trace(struct incident *x, const struct act_anomaly *a)
{
	if (!a->has_trace || (x->i.has_trace && x->i.cause.id != a->id))
		return;
	if (!x->i.has_trace)
		x->news |= ACT_NEWS_CHANGED;
	x->i.has_trace = true;
	memcpy(x->i.trace, a->trace, sizeof(x->i.trace));
}

static void update_member(struct incident *x, uint32_t k, const struct act_anomaly *a)
{
	struct act_member *m = &x->i.member[k];

	m->last_ns = a->last_ns;
	m->end_ns = a->end_ns;
	m->died = a->died;
	m->peak = fmax(m->peak, a->peak);
	m->suspicion = fmax(m->suspicion, a->suspicion);
	note_moves(&x->own[k].now, a);
	/* A host may be unusual for longer than the fault that shows in it. */
	if (!x->own[k].by_host) {
		x->i.begin_ns = BASE_MIN(x->i.begin_ns, a->begin_ns);
		x->i.last_ns = BASE_MAX(x->i.last_ns, a->last_ns);
	}
	x->i.load = act_farther_from_1(x->i.load, a->load);
	take_cause(x, a);
	take_trace(x, a);
	if (!x->told || x->told_kind != ACT_INCIDENT_FAULT)
		x->i.kind = find_kind(x);
	x->changed = true;
}

/*
 * Finds the incident, open or ended as requested, in which the anomaly is the newest one of member
 * *k.
 */
static struct incident *find_member(struct act_incidents *s, uint64_t anomaly, bool open,
				    uint32_t *k)
{
	for (struct incident *x = NULL; (x = get_next(s, x));)
		for (*k = 0; is_open(x) == open && !x->i.joined && *k < x->i.members; ++*k)
			if (x->i.member[*k].anomaly == anomaly)
				return x;
	return NULL;
}

static void add_member(struct act_incidents *s, struct incident *x, const struct act_anomaly *a,
		       enum relation how, int64_t now_ns)
{
	uint32_t k = 0;

	/*
	 * If a pod joins because of the host, members that are not related to it no longer
	 * represent their services.
	 */
	for (uint32_t e = 0; how == BY_HOST && !is_beside(&a->name) && e < x->i.members; e++)
		x->own[e].by_host = !is_related(s, &x->i.member[e].name, &a->name, now_ns);
	if (!is_open(x)) { /* it continues */
		x->i.end_ns = 0;
		x->told = false;
		x->opened_ns = now_ns;
	}
	while (k < x->i.members && x->i.member[k].instance != a->instance)
		k++;
	if (k == ACT_MEMBERS) {
		x->i.left_out++;
		s->stats.left_out++;
		x->i.last_ns = BASE_MAX(x->i.last_ns, a->last_ns);
		return;
	}
	if (k == x->i.members) {
		x->i.member[k] = (struct act_member){.instance = a->instance,
						     .name = a->name,
						     .first = a->id,
						     .begin_ns = a->begin_ns};
		x->own[k] = (struct incident_own){.by_host = how == BY_HOST && is_beside(&a->name)};
		x->i.members++;
	}
	x->own[k].by_host &= how == BY_HOST;
	add_moves(&x->own[k].before, &x->own[k].now);
	x->i.member[k].anomaly = a->id;
	x->i.member[k].anomalies++;
	update_member(x, k, a);
}

/* Returns NULL if too many incidents are open, of all tenants or of the anomaly's. */
static struct incident *open_incident(struct act_incidents *s, const struct act_anomaly *a,
				      int64_t now_ns)
{
	struct base_share places = {.capacity = s->o.max_open,
				    .reserve = s->o.max_open / BASE_SHARE_RESERVE};
	const uint64_t tenant = a->name.tenant;
	struct incident *free_at = NULL, *oldest = NULL;
	uint64_t held = 0;
	bool may;

	for (struct incident *x = s->list; x < s->list + s->o.max_listed; x++) {
		if (!x->i.number) {
			free_at = x;
		} else if (is_open(x)) {
			places.used++;
			held += x->tenant == tenant;
		} else if (!oldest || x->i.number < oldest->i.number) {
			oldest = x;
		}
	}
	may = base_share_may(&places, held, 1, !tenant);
	s->stats.forgotten += !free_at && oldest && may;
	free_at = free_at ? free_at : oldest;
	if (!free_at || !may) {
		s->stats.refused += a->id >
				    s->newest; /* each update tries again, but counts once */
		return NULL;
	}
	memset(free_at, 0, sizeof(*free_at));
	free_at->i.number = ++s->last_number;
	free_at->i.begin_ns = a->begin_ns;
	free_at->opened_ns = now_ns;
	free_at->tenant = tenant;
	act_anomaly_event_id(a, free_at->i.id);
	return free_at;
}

/* Moves the members of an incident to an older one. */
static void join_incidents(struct act_incidents *s, struct incident *to, struct incident *from)
{
	struct act_incident *i = &to->i, *f = &from->i;

	for (uint32_t k = 0; k < f->members; k++) {
		if (i->members == ACT_MEMBERS) {
			i->left_out++;
			s->stats.left_out++;
			continue;
		}
		to->own[i->members] = from->own[k];
		i->member[i->members++] = f->member[k];
	}
	i->left_out += f->left_out;
	i->begin_ns = BASE_MIN(i->begin_ns, f->begin_ns);
	i->last_ns = BASE_MAX(i->last_ns, f->last_ns);
	i->load = act_farther_from_1(i->load, f->load);
	take_cause(to, &f->cause);
	take_trace(to, &f->cause);
	to->changed = true;
	f->joined = i->number;
	memcpy(f->part_of, i->id, sizeof(f->part_of));
	f->end_ns = f->last_ns;
	from->news |= ACT_NEWS_ENDED;
	from->changed = true;
	if (!from->told) /* no receiver was told */
		f->number = 0;
}

/* Finds or opens the incident of a new anomaly. */
static void place_anomaly(struct act_incidents *s, const struct act_anomaly *a, int64_t now_ns)
{
	enum relation best = UNRELATED, how;
	struct incident *to = NULL;

	for (struct incident *x = NULL; (x = get_next(s, x));) {
		if (x->i.joined || !is_touching(s, x, a))
			continue;
		how = relate(s, x, a, now_ns);
		if (how < best || how == UNRELATED)
			continue;
		/* Among equal relations, prefer an open incident, then the oldest one. */
		if (how > best || is_open(x) > is_open(to) ||
		    (is_open(x) == is_open(to) && x->i.number < to->i.number))
			to = x;
		best = how;
	}
	for (struct incident *x = NULL; (x = get_next(s, x));)
		if (best == BY_SERVICE && x != to && is_open(x) && is_open(to) &&
		    is_touching(s, x, a) && relate(s, x, a, now_ns) == BY_SERVICE &&
		    !are_rivals(to, x))
			join_incidents(s, to, x);
	to = to ? to : open_incident(s, a, now_ns);
	if (to)
		add_member(s, to, a, best, now_ns);
}

/*
 * Returns true if the anomaly belongs to an incident that has more members than it can list. If the
 * incident is open, it stays open for as long as the anomaly lasts.
 */
static bool is_left_out(struct act_incidents *s, const struct act_anomaly *a, int64_t now_ns)
{
	bool found = false;

	for (struct incident *x = NULL; (x = get_next(s, x));) {
		enum relation how = x->i.left_out && !x->i.joined && is_touching(s, x, a)
					    ? relate(s, x, a, now_ns)
					    : UNRELATED;

		found |= how != UNRELATED;
		if (is_open(x) && how == BY_SERVICE)
			x->i.last_ns = BASE_MAX(x->i.last_ns, a->last_ns);
	}
	return found;
}

void act_incidents_take(struct act_incidents *s, const struct act_anomaly *a, int64_t now_ns)
{
	struct incident *x;
	uint32_t k;

	pthread_mutex_lock(&s->lock);
	x = find_member(s, a->id, true, &k);
	if (x) {
		update_member(x, k, a);
	} else if (a->id > s->newest || (!a->end_ns && find_member(s, a->id, false, &k))) {
		/* new, or it outlasts an incident on its host that has ended */
		place_anomaly(s, a, now_ns);
	} else if (!is_left_out(s, a, now_ns) && !a->end_ns) {
		/* refused before: there may be room now */
		place_anomaly(s, a, now_ns);
	}
	s->newest = BASE_MAX(s->newest, a->id);
	pthread_mutex_unlock(&s->lock);
}

/* ---- news ---- */

/* The clock may have been set back. */
static bool has_passed(int64_t since_ns, int64_t now_ns, uint64_t ns)
{
	return llabs(now_ns - since_ns) >= (int64_t)ns;
}

static bool is_over(const struct act_incidents *s, const struct incident *x, int64_t now_ns)
{
	for (uint32_t k = 0; k < x->i.members; k++)
		if (!x->i.member[k].end_ns && !x->own[k].by_host &&
		    !has_passed(x->i.member[k].last_ns, now_ns, SILENT_NS))
			return false;
	return has_passed(x->i.last_ns, now_ns, s->o.settle_ns);
}

static void tell_begin(struct act_incidents *s, struct incident *x, int64_t now_ns)
{
	enum act_incident_kind kind = x->i.kind;

	if (x->told ? x->told_kind == kind : !has_passed(x->opened_ns, now_ns, s->o.confirm_ns))
		return;
	if (kind == ACT_INCIDENT_FAULT) {
		s->stats.faults += !*x->i.told_cause.service && !*x->i.told_cause.pod;
		x->i.told_cause = x->i.cause.name;
	} else {
		s->stats.loads++;
	}
	x->told = true;
	x->told_kind = kind;
	x->news |= ACT_NEWS_BEGAN;
}

void act_incidents_poll(struct act_incidents *s, int64_t now_ns,
			void (*tell)(const struct act_incident *i, unsigned int news, void *arg),
			void *arg)
{
	pthread_mutex_lock(&s->lock);
	for (struct incident *x = NULL; (x = get_next(s, x));) {
		if (is_open(x)) {
			tell_begin(s, x, now_ns);
			if (is_over(s, x, now_ns)) {
				x->i.end_ns = x->i.last_ns;
				x->news |= ACT_NEWS_ENDED;
				x->changed = true;
			} else if (!x->news && x->told &&
				   has_passed(x->told_ns, now_ns, s->o.again_ns)) {
				x->news |= ACT_NEWS_AGAIN;
			}
		}
		if (x->changed) {
			x->i.called = is_called(s, &x->i.cause.name, now_ns);
			act_explain_incident(x->i.sentence, sizeof(x->i.sentence), &x->i);
		}
		x->changed = false;
		if (!x->news || !x->told)
			continue;
		tell(&x->i, x->news, arg);
		x->news = 0;
		x->told_ns = now_ns;
	}
	pthread_mutex_unlock(&s->lock);
}

/* ---- readers ---- */

/* Returns the listed incident with the highest number below `below`. */
static const struct incident *find_before(const struct act_incidents *s, uint64_t below)
{
	const struct incident *found = NULL;

	for (struct incident *x = NULL; (x = get_next(s, x));)
		if (x->i.number < below && (!found || x->i.number > found->i.number))
			found = x;
	return found;
}

void act_incidents_each(struct act_incidents *s, uint64_t after,
			bool (*fn)(const struct act_incident *i, void *arg), void *arg)
{
	const struct incident *x;
	uint64_t below = UINT64_MAX;

	pthread_mutex_lock(&s->lock);
	while ((x = find_before(s, below)) && x->i.number > after && fn(&x->i, arg))
		below = x->i.number;
	pthread_mutex_unlock(&s->lock);
}

bool act_incidents_id(struct act_incidents *s, const struct act_anomaly *a,
		      char id[ACT_EVENT_ID_BYTES])
{
	const struct incident *found = NULL;

	pthread_mutex_lock(&s->lock);
	for (struct incident *x = NULL; (x = get_next(s, x));)
		for (uint32_t k = 0; !x->i.joined && k < x->i.members; k++) {
			const struct act_member *m = &x->i.member[k];

			/*
			 * Take the newest incident: a host's anomaly may last from one incident to
			 * the next.
			 */
			if (m->instance == a->instance && m->first <= a->id &&
			    a->id <= m->anomaly && (!found || x->i.number > found->i.number))
				found = x;
		}
	if (found)
		memcpy(id, found->i.id, ACT_EVENT_ID_BYTES);
	pthread_mutex_unlock(&s->lock);
	return found;
}

bool act_incidents_is_load(struct act_incidents *s, uint64_t instance)
{
	bool load = false;

	pthread_mutex_lock(&s->lock);
	for (struct incident *x = NULL; (x = get_next(s, x));)
		for (uint32_t k = 0; is_open(x) && k < x->i.members; k++)
			load |= x->i.member[k].instance == instance && !x->i.member[k].end_ns &&
				(x->i.kind == ACT_INCIDENT_LOAD ||
				 (!x->told && x->i.load >= ACT_LOAD_MOVED));
	pthread_mutex_unlock(&s->lock);
	return load;
}

void act_incidents_stats(struct act_incidents *s, struct act_incidents_stats *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->stats;
	for (struct incident *x = NULL; (x = get_next(s, x));) {
		out->open_faults += is_open(x) && x->i.kind == ACT_INCIDENT_FAULT;
		out->open_loads += is_open(x) && x->i.kind == ACT_INCIDENT_LOAD;
	}
	pthread_mutex_unlock(&s->lock);
}
