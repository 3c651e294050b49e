// SPDX-License-Identifier: Apache-2.0
// server.cc [ROUNDS]: a service as prometheus-cpp's own samples are: an exposer, a registry,
// counters by label, and the forward declarations that headers of applications have.
namespace prometheus
{
class Counter;
class Registry;
template <typename T> class Family;
} // namespace prometheus

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/registry.h>

int main(int argc, char **argv)
{
	using namespace prometheus;
	Exposer exposer{"127.0.0.1:0"};
	auto registry = std::make_shared<Registry>();
	Family<Counter> &packets = BuildCounter()
					   .Name("observed_packets_total")
					   .Help("Number of observed packets")
					   .Register(*registry);
	Counter &tcp_rx = packets.Add({{"protocol", "tcp"}, {"direction", "rx"}});
	Counter &tcp_tx = packets.Add({{"protocol", "tcp"}, {"direction", "tx"}});
	Counter &udp_rx = packets.Add({{"protocol", "udp"}, {"direction", "rx"}});
	auto &requests = BuildCounter()
				 .Name("http_requests_total")
				 .Help("Number of HTTP requests")
				 .Register(*registry);

	exposer.RegisterCollectable(registry);
	for (int i = 0; i < (argc > 1 ? std::atoi(argv[1]) : 1000); i++) {
		if (i % 4 == 0)
			tcp_rx.Increment();
		if (i % 4 == 1)
			tcp_tx.Increment();
		if (i % 4 >= 2)
			udp_rx.Increment();
		requests.Add({{"method", i % 3 ? "GET" : "POST"}}).Increment();
	}
	std::cout << "done" << std::endl;
	std::string line;
	std::getline(std::cin, line);
	return 0;
}
