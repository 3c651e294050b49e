/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher of this process, its series, and the thread for periodic tasks. */
#ifndef SIDELIGHT_PROMETHEUS_PROCESS_H
#define SIDELIGHT_PROMETHEUS_PROCESS_H

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <pthread.h>
#include <set>
#include <signal.h>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* functions with the same name as a structure */
#pragma GCC diagnostic ignored "-Wold-style-cast"
#include <sidelight/sidelight.h>
#pragma GCC diagnostic pop

#include "prometheus/detail/utf8.h"
#include "prometheus/labels.h"

namespace prometheus
{
namespace detail
{
/* A structure of the C interface that begins with its size. */
template <class T> T Sized()
{
	T t{};

	t.sz = sizeof(T);
	return t;
}

/*
 * The result points into the labels. A value that contains a NUL would be cut there and could
 * identify another series. It is therefore replaced by invalid UTF-8, which the library refuses and
 * counts.
 */
inline std::vector<sl_label> LabelArray(const Labels &labels)
{
	std::vector<sl_label> out;

	for (const auto &label : labels)
		out.push_back({label.first.c_str(), label.second.find('\0') == std::string::npos
							    ? label.second.c_str()
							    : "\xff"});
	return out;
}

struct Options {
	std::string service, pod, kube_namespace, socket;
	Labels labels;
	std::uint32_t max_cells = 0, max_threads = 0, schema_bytes = 0, span_bytes = 0;
	std::uint32_t flags = 0; /* SL_PUBLISHER_... */
};

/* What identifies a series, and its help. */
struct Identity {
	Identity(const std::string &n, const std::string &h, const Labels &l)
	    : name(n), help(CutText(h, SL_HELP_MAX)), labels(l)
	{
	}

	std::string name, help;
	Labels labels;
};

/* A task that runs every $SIDELIGHT_COLLECT_SECONDS, by default 5. */
class Periodic
{
      public:
	virtual ~Periodic() = default;
	/* Releases the lock while the application's code runs, because that takes other locks. */
	virtual void Tick(std::unique_lock<std::mutex> &lock) = 0;
};

class Process
{
      public:
	/* The object is never destroyed, because threads may count until the process exits. */
	static Process &Get()
	{
		static Process *const process = new Process;

		return *process;
	}

	bool Open(const Options &options)
	{
		std::lock_guard<std::mutex> guard(mutex_);

		if (main_) {
			errno = EBUSY;
			return false;
		}
		options_ = options;
		return Main();
	}
	sl_publisher *Publisher()
	{
		std::lock_guard<std::mutex> guard(mutex_);

		return Main();
	}
	void Close()
	{
		std::unique_lock<std::mutex> ticking(tick_mutex_);

		tasks_.clear();
		tick_ends_.wait(ticking, [this] { return !ticking_; });
		std::lock_guard<std::mutex> guard(mutex_);
		sl_publisher_close(fractions_);
		sl_publisher_close(main_);
		fractions_ = main_ = nullptr;
		closed_ = true;
		series_.clear();
		families_.clear();
	}

	/*
	 * Returns a handle of the series with this identity. Several users may share a series if
	 * all are instruments or all are copies (mirror); otherwise the same events would count
	 * twice. fraction: the series holds the fractions of a counter whose whole part has another
	 * series. If the series is left over from a destroyed registry, it starts again at 0.
	 */
	template <class Kind>
	typename Kind::Handle Enter(const std::string &key, const Identity &id, bool fraction,
				    sl_metric_opts o, bool mirror)
	{
		std::lock_guard<std::mutex> guard(mutex_);
		if (!MayShare(key, mirror))
			return {};
		sl_publisher *p = fraction ? Fractions() : Main();
		const std::vector<sl_label> labels = LabelArray(id.labels);
		const std::uint64_t family = FamilyOf<Kind>(p, id, fraction, o);
		Entry &e = series_[key];

		if (!e.users && e.remove)
			e.remove();
		typename Kind::Handle h = With<Kind>(p, family, fraction, labels, o);
		if (h.bits) {
			const Labels own = id.labels;

			e.users++;
			e.mirror = mirror;
			e.remove = [family, own] {
				const std::vector<sl_label> array = LabelArray(own);

				Kind::Remove({family}, array.data(), array.size());
			};
		} else if (!e.users) {
			series_.erase(key);
		}
		return h;
	}
	/*
	 * Registers a user of a series that is published without Enter(), such as an info, so that
	 * no copy of it is published.
	 */
	void Claim(const std::string &key)
	{
		std::lock_guard<std::mutex> guard(mutex_);
		Entry &e = series_[key];

		if (!e.users && e.remove)
			e.remove();
		if (!e.users++)
			e.remove = [] {};
	}
	/* Removes a user of a series. After the last one, removes the series if `remove` is set. */
	void Leave(const std::string &key, bool remove)
	{
		std::lock_guard<std::mutex> guard(mutex_);
		const auto at = series_.find(key);

		if (at == series_.end() || (at->second.users && --at->second.users) || !remove)
			return;
		at->second.remove();
		series_.erase(at);
	}

	void Start(Periodic *task)
	{
		std::lock_guard<std::mutex> guard(tick_mutex_);

		if (closed_)
			return;
		tasks_.insert(task);
		ticks_ = true;
		Continue();
	}
	/* Once this returns, the task's Tick() is not running and will not be called again. */
	void Stop(Periodic *task)
	{
		std::unique_lock<std::mutex> guard(tick_mutex_);

		tasks_.erase(task);
		tick_ends_.wait(guard, [&] { return ticking_ != task; });
	}
	/* Starts the thread again in a forked child, which lacks the thread of its parent. */
	void ContinueInChild()
	{
		if (__builtin_expect(forked_.load(std::memory_order_relaxed), 0)) {
			std::lock_guard<std::mutex> guard(tick_mutex_);

			forked_ = false;
			if (ticks_)
				Continue();
		}
	}

      private:
	struct Entry {
		unsigned users = 0;
		bool mirror = false;
		std::function<void()> remove;
	};
	struct Known {
		std::uint64_t bits = 0;
		std::vector<double> shape;
	};

	Process()
	{
		const char *seconds = std::getenv("SIDELIGHT_COLLECT_SECONDS");
		const double period = seconds ? std::strtod(seconds, nullptr) : 0;

		period_ = std::chrono::milliseconds(
			period > 0 && period < 86400 ? static_cast<long>(period * 1000) + 1 : 5000);
		pthread_atfork([] { Get().Lock(); }, [] { Get().Unlock(); },
			       [] { Get().UnlockInChild(); });
	}
	void Lock()
	{
		tick_mutex_.lock();
		mutex_.lock();
	}
	void Unlock()
	{
		mutex_.unlock();
		tick_mutex_.unlock();
	}

	/* The child has neither the thread that calls Tick() nor those that wait for its end. */
	void UnlockInChild()
	{
		ticking_ = nullptr;
		new (&tick_ends_) std::condition_variable;
		forked_ = true;
		Unlock();
	}

	bool MayShare(const std::string &key, bool mirror) const
	{
		const auto at = series_.find(key);

		return at == series_.end() || !at->second.users || at->second.mirror == mirror;
	}
	static const char *OrNull(const std::string &s) { return s.empty() ? nullptr : s.c_str(); }

	sl_publisher *OpenOne(std::uint32_t span_bytes) const
	{
		const std::vector<sl_label> labels = LabelArray(options_.labels);
		auto o = Sized<sl_publisher_opts>();

		if (closed_)
			return nullptr;
		o.service = options_.service.empty() ? std::getenv("SIDELIGHT_SERVICE")
						     : options_.service.c_str();
		o.pod = OrNull(options_.pod);
		o.kube_namespace = OrNull(options_.kube_namespace);
		o.socket = OrNull(options_.socket);
		o.labels = labels.data();
		o.label_count = labels.size();
		o.max_cells = options_.max_cells;
		o.max_threads = options_.max_threads;
		o.schema_bytes = options_.schema_bytes;
		o.flags = options_.flags;
		o.span_bytes = span_bytes;
		return sl_publisher_open(&o);
	}
	sl_publisher *Main() { return main_ ? main_ : main_ = OpenOne(options_.span_bytes); }
	/* A second publisher, in which the same names have another kind. */
	sl_publisher *Fractions() { return fractions_ ? fractions_ : fractions_ = OpenOne(0); }

	static std::vector<double> ShapeOf(const sl_metric_opts &o)
	{
		std::vector<double> shape(o.bounds, o.bounds + o.bound_count);

		shape.insert(shape.end(), o.quantiles, o.quantiles + o.quantile_count);
		return shape;
	}
	static std::string FamilyKey(const char *kind, const char *name, bool fraction)
	{
		return std::string(kind) + (fraction ? "+" : "=") + name;
	}
	template <class Kind>
	std::uint64_t FamilyOf(sl_publisher *p, const Identity &id, bool fraction,
			       sl_metric_opts &o)
	{
		o.name = id.name.c_str();
		o.help = OrNull(id.help);
		Known &known = families_[FamilyKey(Kind::kName, o.name, fraction)];
		if (!known.bits) {
			known.bits = Kind::MakeFamily(p, &o).bits;
			known.shape = ShapeOf(o);
		}
		return known.bits;
	}
	/* Within a family, each metric may have other buckets. */
	template <class Kind>
	typename Kind::Handle With(sl_publisher *p, std::uint64_t family, bool fraction,
				   const std::vector<sl_label> &labels, sl_metric_opts &o)
	{
		if (families_[FamilyKey(Kind::kName, o.name, fraction)].shape == ShapeOf(o))
			return Kind::With({family}, labels.data(), labels.size());
		o.labels = labels.data();
		o.label_count = labels.size();
		return Kind::Make(p, &o);
	}

	/* Starts the thread. If that fails, periodic tasks do not run. */
	void Continue()
	{
		sigset_t all, before;

		if (running_ && !forked_)
			return;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		try {
			std::thread([this] { Run(); }).detach();
			running_ = true;
			forked_ = false;
		} catch (const std::system_error &) {
		}
		pthread_sigmask(SIG_SETMASK, &before, nullptr);
	}
	void Run()
	{
		for (;;) {
			std::this_thread::sleep_for(period_);
			std::unique_lock<std::mutex> lock(tick_mutex_);
			for (auto at = tasks_.begin(); at != tasks_.end();) {
				Periodic *const task = ticking_ = *at;
				task->Tick(lock); /* tasks may be added or removed meanwhile */
				ticking_ = nullptr;
				tick_ends_.notify_all();
				at = tasks_.upper_bound(task);
			}
		}
	}

	std::chrono::milliseconds period_;
	std::mutex mutex_; /* taken after tick_mutex_ */
	Options options_;
	sl_publisher *main_ = nullptr, *fractions_ = nullptr;
	bool closed_ = false;
	std::map<std::string, Entry> series_;
	std::map<std::string, Known> families_;

	std::mutex tick_mutex_;
	std::condition_variable tick_ends_;
	std::set<Periodic *> tasks_;
	Periodic *ticking_ = nullptr; /* task whose Tick() is running */
	bool running_ = false, ticks_ = false;
	std::atomic<bool> forked_{false};
};
} // namespace detail
} // namespace prometheus

#endif
