/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - derives the command line, the YAML file and --help from one table, so that they
 * agree. The command line overrides the file, and the file overrides the defaults.
 */
#include "base/base.h"
#include "base/text.h"
#include "base/yaml.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LONG 256 /* getopt's value for table[i] is FIRST_LONG + i, above every letter */

enum { HELP_SHOWN = -1, USAGE_ERROR = -2, FAILURE = -3 };

struct options_parser {
	const struct base_command *cmd;
	const struct base_option *table;
	size_t count;
	bool *given;	    /* options set on the command line */
	const char *config; /* path of the settings file, or NULL */
	const char *where;  /* prefix of messages: "--period" or "FILE:LINE: period" */
};

/* ---- the arena: option values live as long as the process, like argv ---- */

struct options_block {
	struct options_block *next;
	max_align_t data[];
};
static struct options_block *arena; /* options are parsed once, by one thread */

static void *arena_alloc(size_t bytes)
{
	struct options_block *b = calloc(1, sizeof(*b) + bytes);

	if (!b)
		return NULL;
	b->next = arena;
	arena = b;
	return b->data;
}

/* ---- messages ---- */

int base_complain(const struct base_command *cmd, int code, const char *fmt, ...)
{
	char line[8192];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	base_harmless(line);
	fprintf(stderr, "sidelight %s: %s\n", cmd->name, line);
	return code;
}

#define WRONG(p, ...)	 base_complain((p)->cmd, USAGE_ERROR, __VA_ARGS__)
#define OUT_OF_MEMORY(p) base_complain((p)->cmd, FAILURE, "out of memory")

/* ---- one value ---- */

static int parse_f64(const char *s, double *out)
{
	char *end;
	double v;

	/* strtod() also accepts leading blanks, hexadecimal and words; an option does not. */
	if (!*s || s[strspn(s, "0123456789.eE+-")])
		return -EINVAL;
	errno = 0;
	v = strtod(s, &end);
	if (*end || end == s)
		return -EINVAL;
	if (errno == ERANGE)
		return -ERANGE;
	*out = v;
	return 0;
}

static int parse_flag(const char *s, uint64_t *out)
{
	static const char *const names[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcasecmp(s, names[i])) {
			*out = i & 1;
			return 0;
		}
	}
	return -EINVAL;
}

static int append_string(struct base_strings *list, const char *s)
{
	/* Double at each power of two; the arena keeps the old arrays. */
	if (!(list->n & (list->n - 1))) {
		const char **v = arena_alloc((list->n ? 2 * list->n : 1) * sizeof(*v));

		if (!v)
			return -ENOMEM;
		if (list->n)
			memcpy(v, list->v, list->n * sizeof(*v));
		list->v = v;
	}
	list->v[list->n++] = s;
	return 0;
}

static void print_size(char *out, size_t bytes, uint64_t v)
{
	const char *letter = "TGMK";
	unsigned shift = 40;

	for (; shift && (!v || v & ((UINT64_C(1) << shift) - 1)); shift -= 10)
		letter++;
	snprintf(out, bytes, "%" PRIu64 "%.1s", v >> shift, letter);
}

static void print_number(char *out, size_t bytes, const struct base_option *o, double v)
{
	if (o->type == BASE_OPT_DURATION)
		base_print_duration(out, bytes, (uint64_t)v);
	else if (o->type == BASE_OPT_SIZE)
		print_size(out, bytes, (uint64_t)v);
	else
		snprintf(out, bytes, "%.15g", v);
}

static const char *const kinds_of_value[] = {
	[BASE_OPT_FLAG] = "true or false",
	[BASE_OPT_STRING] = "text",
	[BASE_OPT_WORD] = "text",
	[BASE_OPT_LIST] = "text",
	[BASE_OPT_UINT] = "a whole number",
	[BASE_OPT_INT] = "an integer",
	[BASE_OPT_F64] = "a number",
	[BASE_OPT_DURATION] = "a duration such as 500us, 1ms, 1.5s, 2m",
	[BASE_OPT_SIZE] = "a size such as 4096, 64K, 16M, 1G",
};

static void store_integer(const struct base_option *o, uint64_t v)
{
	if (o->bytes == 1)
		*(uint8_t *)o->to = (uint8_t)v;
	else if (o->bytes == 2)
		*(uint16_t *)o->to = (uint16_t)v;
	else if (o->bytes == 4)
		*(uint32_t *)o->to = (uint32_t)v;
	else
		*(uint64_t *)o->to = v;
}

static double load_number(const struct base_option *o)
{
	return o->type == BASE_OPT_F64	 ? *(const double *)o->to
	       : o->type == BASE_OPT_INT ? *(const int32_t *)o->to
	       : o->bytes == 1		 ? *(const uint8_t *)o->to
	       : o->bytes == 2		 ? *(const uint16_t *)o->to
	       : o->bytes == 4		 ? *(const uint32_t *)o->to
					 : (double)*(const uint64_t *)o->to;
}

static int set_option(const struct options_parser *p, const struct base_option *o, const char *s)
{
	uint64_t u = 0;
	double d = 0;
	bool negative = false;
	int err = 0;

	switch (o->type) {
	case BASE_OPT_FLAG:
		err = parse_flag(s, &u);
		break;
	case BASE_OPT_STRING:
	case BASE_OPT_WORD:
		*(const char **)o->to = s;
		return 0;
	case BASE_OPT_LIST:
		return append_string(o->to, s) ? OUT_OF_MEMORY(p) : 0;
	case BASE_OPT_UINT:
		err = base_parse_u64(s, 0, UINT64_MAX >> (64 - 8 * o->bytes), &u);
		break;
	case BASE_OPT_INT:
		negative = *s == '-';
		err = base_parse_u64(s + negative, 0, (uint64_t)INT32_MAX + negative, &u);
		break;
	case BASE_OPT_F64:
		err = parse_f64(s, &d);
		break;
	case BASE_OPT_DURATION:
		err = base_parse_duration(s, &u);
		break;
	case BASE_OPT_SIZE:
		err = base_parse_size(s, &u);
		break;
	case BASE_OPT_PART:
		return 0;
	}
	if (o->type != BASE_OPT_F64)
		d = negative ? -(double)u : (double)u;
	if (err == -EINVAL)
		return WRONG(p, "%s: '%s' is not %s", p->where, s, kinds_of_value[o->type]);
	if (err || ((o->min != 0 || o->max != 0) && (d < o->min || d > o->max))) {
		char min[32], max[32];

		if (o->min == 0 && o->max == 0)
			return WRONG(p, "%s: '%s' is too large", p->where, s);
		print_number(min, sizeof(min), o, o->min);
		print_number(max, sizeof(max), o, o->max);
		return WRONG(p, "%s: '%s' is out of range: expected %s to %s", p->where, s, min,
			     max);
	}
	if (o->type == BASE_OPT_F64)
		*(double *)o->to = d;
	else
		store_integer(o, negative ? 0 - u : u);
	return 0;
}

/* ---- parts of the program ---- */

static bool is_present(const struct base_option *o)
{
	return !o->part || o->part->max != 0;
}

/* Explains why the option of a missing part is refused. */
static void explain_absent(const struct base_option *o, char *out, size_t bytes)
{
	snprintf(out, bytes, "this build has no %s: rebuild with -D%s=enabled", o->part->name,
		 o->part->argument);
}

/* Returns a copy of the table without the rows that begin parts. Each option points to its part. */
static struct base_option *copy_table(const struct base_option *table, size_t *count)
{
	const struct base_option *part = NULL;
	struct base_option *copy;
	size_t rows = 0;

	while (table[rows].name)
		rows++;
	*count = 0;
	copy = arena_alloc((rows + 1) * sizeof(*copy));
	for (size_t i = 0; copy && i < rows; i++) {
		if (table[i].type == BASE_OPT_PART) {
			part = &table[i];
			continue;
		}
		copy[*count] = table[i];
		copy[(*count)++].part = part;
	}
	return copy;
}

/* ---- near matches: "did you mean" ---- */

/* Levenshtein distance; 64 if either word is longer than that. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[65];
	size_t n = strlen(b);

	if (n >= sizeof(row) / sizeof(row[0]) || strlen(a) > 64)
		return 64;
	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned)j;
	for (size_t i = 0; a[i]; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i + 1;
		for (size_t j = 0; j < n; j++) {
			unsigned change = diagonal + (a[i] != b[j]);
			unsigned shorter = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;

			diagonal = row[j + 1];
			row[j + 1] = BASE_MIN(change, shorter);
		}
	}
	return row[n];
}

bool base_nearer(const char *word, const char *candidate, unsigned *least)
{
	size_t n = strlen(word);
	unsigned d = edit_distance(word, candidate);

	if (n >= 2 && !strncmp(word, candidate, n))
		d = 0;
	/* Two swapped letters count as two changes. A word with more changes is not suggested. */
	if (d > (n < 5 ? n / 2 : 3) || d >= *least)
		return false;
	*least = d;
	return true;
}

static const char *find_nearest(const struct options_parser *p, const char *name)
{
	unsigned least = BASE_NOT_NEAR;
	const char *best = NULL;

	for (size_t i = 0; i < p->count; i++)
		if (is_present(&p->table[i]) && base_nearer(name, p->table[i].name, &least))
			best = p->table[i].name;
	return best;
}

/* ---- --help ---- */

/* Formats the default; "" for zero, false and NULL, which need no mention. */
static void default_of(const struct base_option *o, char *out, size_t bytes)
{
	const struct base_strings *list = o->to;
	const char *text;

	*out = 0;
	switch (o->type) {
	case BASE_OPT_FLAG:
		if (*(const bool *)o->to)
			snprintf(out, bytes, "on; --%s=no", o->name);
		break;
	case BASE_OPT_STRING:
	case BASE_OPT_WORD:
		text = *(const char *const *)o->to;
		snprintf(out, bytes, "%s", text ? text : "");
		break;
	case BASE_OPT_LIST:
		if (list->n)
			snprintf(out, bytes, "%s%s", list->v[0], list->n > 1 ? ", ..." : "");
		break;
	default:
		if (load_number(o) != 0)
			print_number(out, bytes, o, load_number(o));
	}
}

static int format_left_side(const struct base_option *o, char *out, size_t bytes)
{
	char letter[] = "    ";
	const char *argument = o->argument ? o->argument : "VALUE";

	if (o->letter) {
		letter[0] = '-';
		letter[1] = o->letter;
		letter[2] = ',';
	}
	if (o->type == BASE_OPT_FLAG)
		return snprintf(out, bytes, "  %s--%s", letter, o->name);
	return snprintf(out, bytes, "  %s--%s %s", letter, o->name, argument);
}

/* Prints words starting at the current column, wrapped at column 79 and indented to `column`. */
static void print_wrapped(const char *text, int column)
{
	int at = column;

	while (*text) {
		int n = (int)strcspn(text, " ");

		if (at > column && at + 1 + n > 79) {
			printf("\n%*s", column, "");
			at = column;
		} else if (at > column) {
			putchar(' ');
			at++;
		}
		printf("%.*s", n, text);
		at += n;
		text += n;
		text += strspn(text, " ");
	}
	putchar('\n');
}

/* Returns HELP_SHOWN, or FAILURE after printing an error. */
static int print_help(const struct options_parser *p)
{
	static const struct base_option own[] = {
		BASE_STRING(
			"config", 0, (const char **)NULL, "FILE",
			"read settings from this YAML file, with the option names above as keys; "
			"the command line takes precedence"),
		BASE_FLAG("help", 'h', (bool *)NULL, "show this"),
	};
	char left[128], text[1024], value[256];
	int column = 0;

	for (size_t i = 0; i < p->count + 2; i++) {
		const struct base_option *o = i < p->count ? &p->table[i] : &own[i - p->count];
		int n = format_left_side(o, left, sizeof(left));

		if (is_present(o) && n > column && n <= 34)
			column = n;
	}
	column += 2;
	printf("Usage: sidelight %s %s\n\n%s\n\nOptions:\n", p->cmd->name, p->cmd->synopsis,
	       p->cmd->summary);
	for (size_t i = 0; i < p->count + 2; i++) {
		const struct base_option *o = i < p->count ? &p->table[i] : &own[i - p->count];
		int n = format_left_side(o, left, sizeof(left));

		if (!is_present(o))
			continue;
		if (n + 2 > column)
			printf("%s\n%*s", left, column, "");
		else
			printf("%-*s", column, left);
		value[0] = 0;
		if (i < p->count && !strcasestr(o->help, "default"))
			default_of(o, value, sizeof(value));
		if (value[0])
			snprintf(text, sizeof(text), "%s (default %s)", o->help, value);
		else
			snprintf(text, sizeof(text), "%s", o->help);
		print_wrapped(text, column);
	}
	/* "generate metrics" shares the manual page of generate. */
	printf("\nFor the manual: man sidelight-%.*s\n", (int)strcspn(p->cmd->name, " "),
	       p->cmd->name);
	if (!fflush(stdout) && !ferror(stdout))
		return HELP_SHOWN;
	return base_complain(p->cmd, FAILURE, "standard output: %s", strerror(errno));
}

/* ---- the file ---- */

/* p->where is "FILE:LINE: KEY", for messages. */
static int set_node(struct options_parser *p, const struct base_option *o, struct base_yaml *y,
		    base_yaml_node node, const char *name)
{
	const char *text = NULL;
	char *copy;

	if (base_yaml_is_list(y, node) || base_yaml_is_mapping(y, node))
		base_yaml_wrong(y, node, "%s: expected %s, found %s", name, kinds_of_value[o->type],
				base_yaml_kind(y, node));
	base_yaml_string(y, node, name, &text);
	if (!text)
		return 0; /* the document already holds the error */
	copy = arena_alloc(strlen(text) + 1);
	if (!copy)
		return OUT_OF_MEMORY(p);
	strcpy(copy, text);
	return set_option(p, o, copy);
}

static int set_pair(struct options_parser *p, struct base_yaml *y, const char *name,
		    base_yaml_node key, base_yaml_node value, bool *seen)
{
	const struct base_option *o;
	char where[512], why[256];
	size_t i, n;
	int err = 0;

	for (i = 0; i < p->count && strcmp(name, p->table[i].name); i++)
		;
	if (i == p->count) {
		const char *near = find_nearest(p, name);

		if (near)
			base_yaml_wrong(y, key, "unknown key '%s'; did you mean '%s'?", name, near);
		else
			base_yaml_wrong(y, key, "unknown key '%s'; see 'sidelight %s --help'", name,
					p->cmd->name);
		return 0;
	}
	o = &p->table[i];
	if (seen[i])
		base_yaml_wrong(y, key, "'%s' is given twice", name);
	if (!is_present(o)) {
		explain_absent(o, why, sizeof(why));
		base_yaml_wrong(y, key, "%s: %s", name, why);
		return 0;
	}
	seen[i] = true;
	if (p->given[i])
		return 0; /* the command line has set it */
	n = base_yaml_count(y, value);
	if (o->type == BASE_OPT_LIST)
		*(struct base_strings *)o->to = (struct base_strings){0};
	else if (base_yaml_is_list(y, value))
		base_yaml_wrong(y, key, "%s: expected %s, found a list", name,
				kinds_of_value[o->type]);
	else if (!n)
		base_yaml_wrong(y, key, "%s: the value is missing", name);
	snprintf(where, sizeof(where), "%s:%zu: %s", p->config, base_yaml_line(y, key), name);
	p->where = where;
	for (size_t k = 0; !err && !base_yaml_error(y) && k < n; k++) {
		if (!base_yaml_at(y, value, k))
			base_yaml_wrong(y, key, "%s: the value is missing", name);
		err = set_node(p, o, y, base_yaml_at(y, value, k), name);
	}
	p->where = NULL;
	return err;
}

static int read_config(struct options_parser *p)
{
	struct base_yaml *y = base_yaml_open(p->config);
	bool *seen = arena_alloc(p->count * sizeof(*seen));
	base_yaml_node key, value;
	const char *name;
	int err = 0;

	if (!y || !seen)
		err = OUT_OF_MEMORY(p);
	else if (base_yaml_root(y) && !base_yaml_is_mapping(y, base_yaml_root(y)))
		base_yaml_wrong(y, base_yaml_root(y),
				"expected lines of the form 'key: value', "
				"but found %s",
				base_yaml_kind(y, base_yaml_root(y)));
	for (size_t i = 0; !err && base_yaml_pair(y, base_yaml_root(y), i, &name, &key, &value);
	     i++)
		err = set_pair(p, y, name, key, value, seen);
	if (!err && base_yaml_error(y))
		err = WRONG(p, "%s", base_yaml_error(y));
	base_yaml_close(y);
	return err;
}

/* ---- the command line ---- */

static int unknown_option(const struct options_parser *p, const char *arg)
{
	char name[128];
	const char *near;

	snprintf(name, sizeof(name), "%s", arg + 2);
	name[strcspn(name, "=")] = 0;
	near = find_nearest(p, name);
	if (near && strcmp(near, name))
		return WRONG(p, "unknown option --%s; did you mean --%s?", name, near);
	return WRONG(p, "unknown option --%s; see 'sidelight %s --help'", name, p->cmd->name);
}

static int parse_command_line(struct options_parser *p, int argc, char **argv,
			      const struct option *longs, const char *shorts)
{
	const int config = FIRST_LONG + (int)p->count, show_help = config + 1;
	int c, err;

	opterr = 0;
	optind = 0; /* 0 makes glibc restart the scan */
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct base_option *o = NULL;
		char where[160], why[256];

		if (c == 'h' || c == show_help)
			return print_help(p);
		if (c == config) {
			p->config = optarg;
			continue;
		}
		if (c == '?' || c == ':') {
			if (c == '?' && optopt > 0 && optopt < FIRST_LONG)
				return WRONG(p, "unknown option -%c; see 'sidelight %s --help'",
					     optopt, p->cmd->name);
			if (c == '?' && !optopt)
				return unknown_option(p, argv[optind - 1]);
			if (c == '?')
				return WRONG(p, "--help does not take a value");
			if (optopt >= FIRST_LONG && optopt < config)
				return WRONG(p, "--%s needs %s", p->table[optopt - FIRST_LONG].name,
					     kinds_of_value[p->table[optopt - FIRST_LONG].type]);
			return WRONG(p, "%s needs a value", argv[argc - 1]);
		}
		if (c >= FIRST_LONG && c < config)
			o = &p->table[c - FIRST_LONG];
		for (size_t i = 0; !o && i < p->count; i++)
			if (p->table[i].letter == c)
				o = &p->table[i];
		if (!o)
			return WRONG(p, "unknown option -%c", c);
		if (!is_present(o)) {
			explain_absent(o, why, sizeof(why));
			return WRONG(p, "--%s: %s", o->name, why);
		}
		if (o->type == BASE_OPT_LIST && !p->given[o - p->table])
			*(struct base_strings *)o->to = (struct base_strings){0};
		p->given[o - p->table] = true;
		snprintf(where, sizeof(where), "--%s", o->name);
		p->where = where;
		if (o->type == BASE_OPT_WORD && !optarg && optind < argc && *argv[optind] != '-')
			optarg = argv[optind++];
		err = set_option(p, o, optarg ? optarg : o->type == BASE_OPT_FLAG ? "true" : "");
		p->where = NULL;
		if (err)
			return err;
	}
	return 0;
}

int base_options_parse(const struct base_command *cmd, const struct base_option *table, int argc,
		       char **argv, int *code)
{
	struct options_parser p = {.cmd = cmd};
	struct option *longs;
	char *shorts, *s;
	int err;

	p.table = table = copy_table(table, &p.count);
	longs = arena_alloc((p.count + 3) * sizeof(*longs));
	shorts = s = arena_alloc(2 * p.count + 4);
	p.given = arena_alloc(p.count * sizeof(*p.given));
	if (!table || !longs || !shorts || !p.given) {
		*code = base_failure(cmd, "out of memory");
		return -1;
	}
	*s++ = ':'; /* makes getopt distinguish a missing value from an unknown option */
	for (size_t i = 0; i < p.count; i++) {
		bool is_flag = table[i].type == BASE_OPT_FLAG || table[i].type == BASE_OPT_WORD;

		longs[i] = (struct option){.name = table[i].name,
					   .has_arg = is_flag ? optional_argument
							      : required_argument,
					   .val = FIRST_LONG + (int)i};
		if (table[i].letter) {
			*s++ = table[i].letter;
			if (!is_flag)
				*s++ = ':';
		}
	}
	*s++ = 'h';
	*s = 0;
	longs[p.count] = (struct option){
		.name = "config", .has_arg = required_argument, .val = FIRST_LONG + (int)p.count};
	longs[p.count + 1] = (struct option){.name = "help", .val = FIRST_LONG + (int)p.count + 1};
	err = parse_command_line(&p, argc, argv, longs, shorts);
	if (!err && p.config)
		err = read_config(&p);
	*code = err == HELP_SHOWN ? BASE_EXIT_OK
		: err == FAILURE  ? BASE_EXIT_FAILURE
				  : BASE_EXIT_USAGE;
	return err ? -1 : optind;
}

bool base_options_only(const struct base_command *cmd, const struct base_option *table, int argc,
		       char **argv, int *code)
{
	int first = base_options_parse(cmd, table, argc, argv, code);

	if (first >= 0 && first < argc)
		*code = base_usage(cmd, "unexpected argument '%s'", argv[first]);
	return first == argc;
}

/* ---- a table as a command line: whole numbers are exact up to 2^53 ---- */

static int print_argument(struct base_strings *to, const struct base_option *o, const char *value)
{
	size_t bytes = strlen(o->name) + strlen(value) + sizeof("--=");
	char *argument = arena_alloc(bytes);

	if (!argument)
		return -ENOMEM;
	snprintf(argument, bytes, "--%s=%s", o->name, value);
	return append_string(to, argument);
}

static int print_option(struct base_strings *to, const struct base_option *o)
{
	const struct base_strings *list = o->to;
	const char *text;
	char number[64];
	int err = 0;

	switch (o->type) {
	case BASE_OPT_LIST:
		for (size_t i = 0; i < list->n && !err; i++)
			err = print_argument(to, o, list->v[i]);
		return err;
	case BASE_OPT_STRING:
	case BASE_OPT_WORD:
		text = *(const char *const *)o->to;
		return text ? print_argument(to, o, text) : 0;
	case BASE_OPT_PART:
		return 0;
	case BASE_OPT_FLAG:
		return print_argument(to, o, *(const bool *)o->to ? "yes" : "no");
	case BASE_OPT_UINT:
	case BASE_OPT_INT:
		snprintf(number, sizeof(number), "%.0f", load_number(o));
		return print_argument(to, o, number);
	default:
		print_number(number, sizeof(number), o, load_number(o));
		return print_argument(to, o, number);
	}
}

char **base_options_print(const struct base_option *table)
{
	struct base_strings arguments = {0};
	int err = append_string(&arguments, NULL);

	for (size_t i = 0; table[i].name && !err; i++)
		err = print_option(&arguments, &table[i]);
	err = err ?: append_string(&arguments, NULL);
	return err ? NULL : (char **)arguments.v;
}
