// SPDX-License-Identifier: Apache-2.0
// app.cc: a service that uses prometheus-cpp, compiled against that and against us. On each line of
// stdin it does that
// ("more", "show"), and answers by one line of JSON.
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/summary.h>
#include <prometheus/text_serializer.h>
#if __has_include(<prometheus/sidelight.h>)
#include <prometheus/sidelight.h>
#define OURS 1
#endif
#if __has_include(<prometheus/info.h>) // from version 1.1 on
#include <prometheus/check_names.h>
#include <prometheus/info.h>
#define SINCE_1_1 1
#endif

using namespace prometheus;

namespace
{

std::string Json(const std::string &s)
{
	std::string out = "\"";

	for (char c : s)
		if (c == '\n')
			out += "\\n";
		else if (c == '"' || c == '\\')
			(out += '\\') += c;
		else
			out += c;
	return out + "\"";
}

// Values that an application computes when it is collected.
class Custom : public Collectable
{
      public:
	std::vector<MetricFamily> Collect() const override
	{
		std::vector<MetricFamily> out = {Make("custom_total", MetricType::Counter),
						 Make("custom_level", MetricType::Gauge),
						 Make("custom_number", MetricType::Untyped),
						 Make("custom_sizes", MetricType::Histogram),
						 Make("custom_ages", MetricType::Summary)};
		out[0].metric[0].counter.value = 12.5;
		out[1].metric[0].gauge.value = -3;
		out[2].metric[0].untyped.value = 7;
		auto &h = out[3].metric[0].histogram;
		h.sample_count = 6;
		h.sample_sum = 21;
		h.bucket = {{1, 1}, {4, 2.5}, {6, INFINITY}};
		auto &s = out[4].metric[0].summary;
		s.sample_count = 5;
		s.sample_sum = 10;
		s.quantile = {{0.5, 2}, {0.9, 4}};
		return out;
	}

      private:
	static MetricFamily Make(const char *name, MetricType type)
	{
		MetricFamily f;

		f.name = name;
		f.help = "Asked for.";
		f.type = type;
		f.metric.resize(1);
		f.metric[0].label = {{"of", "custom"}};
		return f;
	}
};

// Lists the metrics of a registry, which publishes them already.
class Delegate : public Collectable
{
      public:
	explicit Delegate(const std::shared_ptr<Registry> &to) : to_(to) {}

	std::vector<MetricFamily> Collect() const override
	{
		asked++;
		return to_->Collect();
	}

	mutable std::atomic<int> asked{0};

      private:
	const std::shared_ptr<Registry> to_;
};

// Takes a lock of the application's own.
class Locking : public Collectable
{
      public:
	std::vector<MetricFamily> Collect() const override
	{
		asked = true;
		std::lock_guard<std::mutex> guard(mutex);
		return {};
	}

	mutable std::atomic<bool> asked{false};
	mutable std::mutex mutex;
};

class App
{
      public:
	App()
	    : plain_(BuildCounter()
			     .Name("app_plain_total")
			     .Help("Without labels.")
			     .Register(*registry_)
			     .Add({})),
	      seconds_(BuildCounter()
			       .Name("app_busy_seconds_total")
			       .Help("Time.")
			       .Register(*registry_)
			       .Add({})),
	      routes_(BuildCounter()
			      .Name("app_routes_total")
			      .Help("Requests.")
			      .Labels({{"zone", "a"}})
			      .Register(*registry_)),
	      level_(BuildGauge().Name("app_level").Help("Jobs.").Register(*registry_)),
	      took_(BuildHistogram().Name("app_took_seconds").Help("Time.").Register(*registry_)),
	      ages_(BuildSummary().Name("app_ages").Help("Years.").Register(*registry_)),
	      gone_(BuildGauge().Name("app_gone").Help("Comes and goes.").Register(*registry_))
	{
		exposer_.RegisterCollectable(registry_);
	}

	std::string More()
	{
		const Histogram::BucketBoundaries bounds = {0.1, 0.5, 1, 5};

		plain_.Increment();
		plain_.Increment(2);
		plain_.Increment(-5);
		plain_.Increment(0.25);
		seconds_.Increment(0.5);
		seconds_.Increment();
		routes_.Add({{"route", "/a"}, {"code", "200"}}).Increment();
		routes_.Add({{"code", "200"}, {"route", "/a"}}).Increment(3);
		routes_.Add({{"route", "\xc3\xbc\"\\\n"}}).Increment(1e9);
		routes_.Add({{"route", ""}}).Increment();
		level_.Add({{"kind", "x"}}, 4.5).Increment();
		level_.Add({{"kind", "x"}}).Decrement(0.25);
		level_.Add({{"kind", "y"}}).Set(-2.5);
		level_.Add({{"kind", "z"}}, 9);
		level_.Add({{"kind", "inf"}}).Set(INFINITY);
		auto &took = took_.Add({{"route", "/a"}}, bounds);
		took.Observe(0.1);
		took.Observe(0.3);
		took.Observe(7);
		took.ObserveMultiple({1, 0, 2, 0, 3}, 33.5);
		took_.Add({{"route", "/b"}}, Histogram::BucketBoundaries{1, 2}).Observe(1.5);
		auto &ages = ages_.Add({{"of", "a"}},
				       Summary::Quantiles{{0.9, 0}, {0.5, 0}, {0.99, 0}});
		for (int i = 0; i < 100; i++)
			ages.Observe(i);
		ages_.Add({{"of", "none"}}, Summary::Quantiles{}).Observe(2);
		gone_.Add({{"x", "1"}}).Set(1);
		gone_.Add({{"x", "2"}}).Set(2);
		gone_.Remove(&gone_.Add({{"x", "1"}}));
		return "null";
	}
	std::string Show() const { return Json(TextSerializer().Serialize(registry_->Collect())); }
	// Calls that must throw, and the exceptions.
	std::string Refused()
	{
		const std::vector<std::function<void()>> calls = {
			[&] { BuildCounter().Name("0bad").Register(*registry_); },
			[&] {
				BuildCounter().Name("b").Labels({{"a-", ""}}).Register(*registry_);
			},
			[&] { BuildGauge().Name("app_plain_total").Register(*registry_); },
			[&] { BuildCounter().Name("app_routes_total").Register(*registry_); },
			[&] {
				routes_.Add({{"__x", ""}});
			},
			[&] {
				routes_.Add({{"zone", "b"}});
			},
			[&] {
				took_.Add({}, Histogram::BucketBoundaries{2, 1});
			},
			[&] {
				took_.Add({{"route", "/a"}}, Histogram::BucketBoundaries{1})
					.ObserveMultiple({1, 2, 3, 4, 5, 6}, 1);
			},
			[&] { BuildCounter().Name("b").Register(throws_), Again(); },
		};
		std::string out = "[";

		for (const auto &call : calls)
			try {
				call();
				out += Json("none") + ",";
			} catch (const std::invalid_argument &e) {
				out += Json(std::string("invalid_argument ") + e.what()) + ",";
			} catch (const std::length_error &) {
				out += Json("length_error") + ",";
			}
		out.back() = ']';
		return out;
	}
	std::string Custom()
	{
		exposer_.RegisterCollectable(custom_);
		return Json(TextSerializer().Serialize(custom_->Collect()));
	}
	std::string NoCustom()
	{
		exposer_.RemoveCollectable(custom_);
		return "null";
	}
	std::string Unregister() { return registry_->Remove(level_) ? "true" : "false"; }

	// Two threads, each with 100,000 of whole numbers and of others.
	std::string Threads()
	{
		std::vector<std::thread> threads;
		auto &whole = routes_.Add({{"route", "/threads"}});
		auto &h = took_.Add({{"route", "/threads"}}, Histogram::BucketBoundaries{1});
		auto &s = ages_.Add({{"of", "threads"}}, Summary::Quantiles{{0.5, 0.05}});

		for (int t = 0; t < 2; t++)
			threads.emplace_back([&] {
				for (int i = 0; i < 100000; i++) {
					whole.Increment();
					plain_.Increment(0.5);
					h.Observe(i % 2 ? 0.5 : 2);
					s.Observe(1);
				}
			});
		for (auto &t : threads)
			t.join();
		return std::to_string(whole.Value());
	}
	// A child that counts 100 times, and waits until it is killed.
	std::string Fork()
	{
		const pid_t pid = fork();

		if (pid)
			return std::to_string(pid);
		prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that fails leaves no process
		for (int i = 0; i < 100; i++)
			plain_.Increment();
		plain_.Increment(0.5);
		ages_.Add({{"of", "child"}}, Summary::Quantiles{{0.5, 0.05}}).Observe(3);
		for (;;)
			pause();
	}
	// Forks 200 times while another thread adds metrics; returns the number of children that
	// exited with status 0.
	std::string ForkWhileAdding()
	{
		std::atomic<bool> over{false};
		int forked = 0;
		std::thread adds([&] {
			for (int i = 0; !over; i++)
				routes_.Add({{"route", "/race/" + std::to_string(i % 500)}})
					.Increment();
		});

		for (int i = 0; i < 200; i++) {
			const pid_t pid = fork();
			int status = 1;

			if (!pid)
				_exit(0);
			waitpid(pid, &status, 0);
			forked += status == 0;
		}
		over = true;
		adds.join();
		return std::to_string(forked);
	}
	std::string Full()
	{
		for (int i = 0; i < 2000; i++)
			routes_.Add({{"route", "/full/" + std::to_string(i)}}).Increment();
		return std::to_string(routes_.Add({{"route", "/full/1999"}}).Value());
	}
	std::string Forge()
	{
		routes_.Add({{"process", "1"}, {"host", "victim"}, {"uid", "0"}}).Increment();
		return "null";
	}
	// A registry is destroyed, and another one with the same metric follows it, which begins at 0.
	std::string Short()
	{
		double value = 0;

		for (int i = 0; i < 2; i++) {
			Registry r;
			auto &c = BuildCounter().Name("app_short_total").Register(r).Add({});

			c.Increment(5);
			value = c.Value();
		}
		return std::to_string(value);
	}
#ifdef SINCE_1_1
	std::string Info()
	{
		auto &family = BuildInfo()
				       .Name("app_version")
				       .Help("What it is.")
				       .Labels({{"of", "app"}})
				       .Register(*registry_);
		family.Add({{"version", "1.0"}});
		family.Remove(&family.Add({{"version", "0.9"}}));
		return Json(TextSerializer().Serialize(family.Collect()));
	}
	// Names that version 1.1 and later refuse.
	std::string Reserved()
	{
		int refused = 0;

		for (const auto &call : std::vector<std::function<void()>>{
			     [&] {
				     took_.Add({{"le", "1"}}, Histogram::BucketBoundaries{1});
			     },
			     [&] {
				     ages_.Add({{"quantile", "1"}}, Summary::Quantiles{});
			     },
			     [&] {
				     BuildHistogram()
					     .Name("h")
					     .Labels({{"le", ""}})
					     .Register(throws_);
			     }})
			try {
				call();
			} catch (const std::invalid_argument &) {
				refused++;
			}
		level_.Add({{"le", "1"}, {"quantile", "1"}});
		refused += !CheckLabelName("le", MetricType::Histogram);
		refused += !CheckLabelName("quantile", MetricType::Summary);
		refused += !CheckLabelName("__le", MetricType::Gauge);
		refused -= !CheckLabelName("le", MetricType::Gauge);
		return std::to_string(refused);
	}
#endif
#ifdef OURS
	// Lists the registry a few times through a Collectable. Returns what the registry shows then.
	std::string Delegated()
	{
		const auto delegate = std::make_shared<Delegate>(registry_);

		exposer_.RegisterCollectable(delegate);
		while (delegate->asked < 4)
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
		delegate_ = delegate;
		return Show();
	}
	// Forks, and adds a summary, while Collect() waits for a lock that this thread has.
	std::string Held()
	{
		const auto locking = std::make_shared<Locking>();

		{
			std::lock_guard<std::mutex> guard(locking->mutex);
			exposer_.RegisterCollectable(locking);
			while (!locking->asked)
				std::this_thread::sleep_for(std::chrono::milliseconds(1));
			const pid_t pid = fork();
			if (!pid)
				_exit(0);
			waitpid(pid, nullptr, 0);
			ages_.Remove(&ages_.Add({{"of", "held"}}, Summary::Quantiles{{0.5, 0.05}}));
		}
		exposer_.RemoveCollectable(locking);
		return "true";
	}
	// Text that a region cannot have as it is.
	std::string Texts()
	{
		BuildGauge()
			.Name("app_long")
			.Help(std::string(1022, 'x') + "\xc3\xbc")
			.Register(*registry_)
			.Add({});
		BuildGauge().Name("app_latin").Help("M\xfcll").Register(*registry_).Add({});
		routes_.Add({{"route", "nul"}}).Increment();
		routes_.Add({{"route", std::string("nul\0more", 8)}}).Increment();
		return "null";
	}
	std::string Attached()
	{
		return sl_publisher_attached(sidelight::Publisher()) ? "true" : "false";
	}
	std::string Refusals()
	{
		auto stats = detail::Sized<struct sl_publisher_stats>();

		::sl_publisher_stats(sidelight::Publisher(), &stats);
		return std::to_string(stats.refused);
	}
#endif

      private:
	void Again()
	{
		BuildCounter().Name("b").Register(throws_);
	}

	Exposer exposer_{"127.0.0.1:0"};
	std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
	std::shared_ptr<Collectable> custom_ = std::make_shared<class Custom>();
	std::shared_ptr<Collectable> delegate_;
	Registry throws_{Registry::InsertBehavior::Throw};
	Counter &plain_, &seconds_;
	Family<Counter> &routes_;
	Family<Gauge> &level_;
	Family<Histogram> &took_;
	Family<Summary> &ages_;
	Family<Gauge> &gone_;
};

} // namespace

int main(int argc, char **)
{
#ifdef OURS
	if (argc > 1) {
		sidelight::Options o;

		o.max_cells = 300;
		o.schema_bytes = 65536;
		o.flags = SL_PUBLISHER_FIXED;
		if (!sidelight::Open(o) || sidelight::Open(o))
			return 1;
	}
#endif
	App app;
	const std::map<std::string, std::function<std::string()>> commands = {
		{"more", [&] { return app.More(); }},
		{"show", [&] { return app.Show(); }},
		{"refused", [&] { return app.Refused(); }},
		{"custom", [&] { return app.Custom(); }},
		{"no_custom", [&] { return app.NoCustom(); }},
		{"unregister", [&] { return app.Unregister(); }},
		{"threads", [&] { return app.Threads(); }},
		{"fork", [&] { return app.Fork(); }},
		{"race", [&] { return app.ForkWhileAdding(); }},
		{"full", [&] { return app.Full(); }},
		{"forge", [&] { return app.Forge(); }},
		{"short", [&] { return app.Short(); }},
#ifdef SINCE_1_1
		{"info", [&] { return app.Info(); }},
		{"reserved", [&] { return app.Reserved(); }},
#endif
#ifdef OURS
		{"delegated", [&] { return app.Delegated(); }},
		{"held", [&] { return app.Held(); }},
		{"texts", [&] { return app.Texts(); }},
		{"attached", [&] { return app.Attached(); }},
		{"refusals", [&] { return app.Refusals(); }},
#endif
	};
	std::string line;

	(void)argc;
	while (std::getline(std::cin, line))
		std::cout << commands.at(line)() << std::endl;
	return 0;
}
