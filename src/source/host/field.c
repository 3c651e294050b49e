// SPDX-License-Identifier: Apache-2.0
/* field.c - series whose names are derived from a file's contents. They are never removed. */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "source/host/internal.h"

struct host_fields *host_fields(struct host *h, struct host_fields *f, enum host_type type,
				void (*describe)(const char *, size_t, char *, char *))
{
	f->h = h;
	f->type = type;
	f->describe = describe;
	return f;
}

void host_fields_free(struct host_fields *f)
{
	free(f->v);
	f->v = NULL;
	f->n = f->room = 0;
}

void host_name_clean(char *name)
{
	for (; *name; name++)
		if (!(*name >= 'a' && *name <= 'z') && !(*name >= 'A' && *name <= 'Z') &&
		    !(*name >= '0' && *name <= '9'))
			*name = '_';
}

static struct host_field *create_field(struct host_fields *f, const char *key, size_t n)
{
	char name[128], help[192];
	struct host_desc d = HOST_DESC(name, help, f->type);
	struct host_field *field;

	if (n > HOST_KEY_MAX || f->n >= HOST_FIELDS_MAX || !BASE_GROW(f->v, f->n, f->room)) {
		f->h->counts.refused++;
		return NULL;
	}
	field = &f->v[f->n++];
	memset(field, 0, sizeof(*field));
	memcpy(field->key, key, n);
	field->key_bytes = n;
	f->describe(field->key, n, name, help);
	field->cell.handle = host_series(f->type, host_family(f->h, &d), NULL, 0);
	f->h->counts.refused += !field->cell.handle.bits;
	return field;
}

struct host_field *host_field(struct host_fields *f, const char *key, size_t n)
{
	for (size_t i = 0; i < f->n; i++) {
		size_t at = (f->next + i) % f->n;

		if (f->v[at].key_bytes == n && !memcmp(f->v[at].key, key, n)) {
			f->next = at + 1;
			return &f->v[at];
		}
	}
	return create_field(f, key, n);
}
