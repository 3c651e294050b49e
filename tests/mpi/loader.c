// SPDX-License-Identifier: Apache-2.0
/*
 * loader.c - loader MODULE ARGUMENT...: runs main() of a module, which brings MPI with it, as
 * interpreters do.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *module = argc > 1 ? dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL) : NULL;
	int (*run)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "main") : NULL;

	if (!run) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return run(argc - 1, argv + 1);
}
