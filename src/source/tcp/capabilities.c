// SPDX-License-Identifier: Apache-2.0
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "source/tcp/util.h"

/* CAP_SYS_ADMIN implies all others but CAP_NET_ADMIN, needed by socket storage and netfilter. */
const char *tcp_capabilities_missing(char *out, size_t bytes)
{
	static const struct {
		int bit;
		const char *name;
	} needed[] = {{CAP_BPF, "CAP_BPF"},
		      {CAP_PERFMON, "CAP_PERFMON"},
		      {CAP_NET_ADMIN, "CAP_NET_ADMIN"}};
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3];
	uint64_t have;

	*out = 0;
	if (syscall(SYS_capget, &head, own))
		return out; /* loading the programs will fail and report the error */
	have = own[0].effective | (uint64_t)own[1].effective << 32;
	for (unsigned int i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!(have >> needed[i].bit & 1) &&
		    !(have >> CAP_SYS_ADMIN & 1 && needed[i].bit != CAP_NET_ADMIN))
			snprintf(out + strlen(out), bytes - strlen(out), "%s%s", *out ? ", " : "",
				 needed[i].name);
	return out;
}
