// SPDX-License-Identifier: Apache-2.0
/* cxx.cc - sidelight.hpp as an application uses it; prints "ok". Built by test_link.py. */
#include <sidelight/sidelight.hpp>

#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

static void check(bool condition, const char *what)
{
	if (!condition) {
		std::fprintf(stderr, "not so: %s\n", what);
		std::exit(1);
	}
}
#define CHECK(condition) check(static_cast<bool>(condition), #condition)

static sl_publisher_opts detached()
{
	auto o = sidelight::opts<sl_publisher_opts>();

	o.service = "cxx";
	o.flags = SL_PUBLISHER_DETACHED;
	o.span_bytes = SL_SPAN_BYTES;
	return o;
}

static void metrics(sidelight::publisher &p)
{
	static const char *const states[] = {"off", "on"};
	static const double bounds[] = {1, 2, 4};
	auto requests = p.counter("requests_total", "Requests.", "requests");
	auto seconds = p.counter_f64("seconds_total");
	auto open = p.gauge("open");
	auto load = p.gauge_f64("load");
	auto native = p.histogram("native_seconds", "Time.", "seconds");
	auto o = sidelight::metric("classic_bytes", "Sizes.", "bytes");
	auto s = sidelight::metric("power");
	std::vector<std::thread> threads;

	o.bounds = bounds;
	o.bound_count = 3;
	auto classic = p.histogram(o);
	s.states = states;
	s.state_count = 2;
	auto power = p.stateset(s);
	for (int i = 0; i < 4; i++)
		threads.emplace_back([requests] {
			for (int k = 0; k < 1000; k++)
				requests.inc();
		});
	for (auto &t : threads)
		t.join();
	requests.add(2);
	seconds.add(1.5);
	open.set(5);
	open.add(-2);
	load.set(.5);
	load.add(.25);
	native.observe(.1);
	classic.observe(3);
	classic.observe(5);
	power.set(1, true);
	CHECK(requests && seconds && open && load && native && classic && power);
	CHECK(requests.value() == 4002);
	CHECK(seconds.value() >= 1.5 && seconds.value() <= 1.5);
	CHECK(open.value() == 3);
	CHECK(load.value() >= .75 && load.value() <= .75);
	CHECK(native.count() == 1 && classic.count() == 2);
	CHECK(classic.sum() >= 8 && classic.sum() <= 8);
	CHECK(p.stats().refused == 0);
}

static void families(sidelight::publisher &p)
{
	auto answered = p.counter_family("answered_total", "Requests answered.");
	auto ok = answered.with({{"route", "/cart"}, {"code", "200"}});
	const sl_label same[] = {{"code", "200"}, {"route", "/cart"}};
	const std::string route = "/order";
	sidelight::counter none;

	ok.inc();
	answered.with(same, 2).inc();
	answered.with({{"route", route.c_str()}, {"code", "200"}}).inc();
	answered.with({}).inc();
	CHECK(ok.value() == 2);
	CHECK(!none);
	none.inc();
	CHECK(!none.value());
	CHECK(!answered.with({{"__bad", "x"}}));
	CHECK(p.gauge_family("depth").with({{"queue", "mail"}}));
	CHECK(p.histogram_family("took_seconds", "Time.", "seconds").with({{"route", "/"}}));
	CHECK(p.stats().refused == 1);
}

static void spans(sidelight::publisher &p)
{
	const auto name = p.span_name("GET /cart");
	const auto key = p.span_key("cart.items");
	const auto caller = sidelight::parse_traceparent(
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");

	CHECK(sl_trace_context_valid(&caller));
	sidelight::span served{name, SL_SPAN_SERVER, caller};
	CHECK(served.context().trace_lo == caller.trace_lo);
	{
		sidelight::span inner{name, SL_SPAN_INTERNAL, served.context()};

		inner.set(key, 3);
		inner.set(key, 3u);
		inner.set(key, true);
		inner.set(key, 2.5f);
		inner.set(key, "literal");
		inner.set(key, std::string("string"));
		inner.status(SL_SPAN_ERROR, "sold out");
	}
	served.end();
	served.end(); /* nothing */
	sidelight::span root{name};
	CHECK(sl_trace_context_valid(&root.context()));
	CHECK(root.context().trace_lo != caller.trace_lo);
	const auto bad = sidelight::parse_traceparent("nonsense");
	CHECK(!sl_trace_context_valid(&bad));
}

static void a_publisher_closes_with_its_scope()
{
	int fd;
	{
		sidelight::publisher p{detached()};

		fd = sl_publisher_fd(p.get());
		CHECK(fcntl(fd, F_GETFD) >= 0);
	}
	CHECK(fcntl(fd, F_GETFD) == -1);
}

int main()
{
	auto wrong = detached();
	sidelight::publisher p{detached()}, moved{std::move(p)};

	CHECK(moved && !p && !moved.error());
	CHECK(!moved.alarmed() && !moved.attached() && !moved.verdict().known);
	metrics(moved);
	families(moved);
	spans(moved);
	a_publisher_closes_with_its_scope();
	p = std::move(moved);
	CHECK(p && !moved);
	wrong.flags = ~0u;
	sidelight::publisher none{wrong};
	CHECK(!none && none.error() == EINVAL);
	none.counter("x_total").inc();
	none.counter_family("y_total").with({{"k", "v"}}).inc();
	sidelight::span nothing{none.span_name("x")};
	std::puts("ok");
	return 0;
}
