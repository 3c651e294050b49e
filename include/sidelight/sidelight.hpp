/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/sidelight.hpp - sidelight.h and span.h for C++17.
 *
 *	sidelight::publisher shop{"shop"};
 *	auto answered = shop.counter_family("http_requests_total", "Requests answered.");
 *	auto ok = answered.with({{"route", "/cart"}, {"code", "200"}});
 *	auto took = shop.histogram("http_request_seconds", "Time to answer.", "seconds");
 *	auto cart = shop.span_name("GET /cart");
 *	...
 *	sidelight::span span{cart, SL_SPAN_SERVER, sidelight::parse_traceparent(header)};
 *	ok.inc();
 *	took.observe(seconds);
 *
 * The rules of sidelight.h and span.h hold: metrics are small values, any thread may update them,
 * and a refused one does nothing. No function throws or allocates from the C++ heap. A publisher
 * closes when it is destroyed; its metrics must not be used after that, and no span may be open.
 * Strings are copied by the call that takes them.
 *
 * Header only, over the C interface. Link with -lsidelight (pkg-config sidelight).
 */
#ifndef SIDELIGHT_SIDELIGHT_HPP
#define SIDELIGHT_SIDELIGHT_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include <sidelight/sidelight.h>
#include <sidelight/span.h>

namespace sidelight
{

/* Returns a structure that begins with sz (options, statistics, verdicts); the rest is 0. */
template <class T> T opts() noexcept
{
	T t{};

	t.sz = sizeof(T);
	return t;
}

/* Returns options of a metric; set further members as needed: labels, buckets, states. */
inline sl_metric_opts metric(const char *name, const char *help = nullptr,
			     const char *unit = nullptr) noexcept
{
	auto o = opts<sl_metric_opts>();

	o.name = name;
	o.help = help;
	o.unit = unit;
	return o;
}

/* ---- metrics ---- */

/* A handle of the C interface. A default-constructed or refused handle does nothing. */
template <class Handle> class handle
{
      public:
	handle() noexcept = default;
	handle(Handle h) noexcept : h_(h) {}
	explicit operator bool() const noexcept { return h_.bits >> 32; }
	Handle get() const noexcept { return h_; }

      protected:
	Handle h_{};
};

class counter : public handle<sl_counter>
{
      public:
	using handle::handle;
	void inc() const noexcept { sl_counter_inc(h_); }
	void add(std::uint64_t n) const noexcept { sl_counter_add(h_, n); }
	std::uint64_t value() const noexcept { return sl_counter_value(h_); }
};

class counter_f64 : public handle<sl_counter_f64>
{
      public:
	using handle::handle;
	void add(double v) const noexcept { sl_counter_f64_add(h_, v); }
	double value() const noexcept { return sl_counter_f64_value(h_); }
};

class gauge : public handle<sl_gauge>
{
      public:
	using handle::handle;
	void set(std::int64_t v) const noexcept { sl_gauge_set(h_, v); }
	void add(std::int64_t v) const noexcept { sl_gauge_add(h_, v); }
	std::int64_t value() const noexcept { return sl_gauge_value(h_); }
};

class gauge_f64 : public handle<sl_gauge_f64>
{
      public:
	using handle::handle;
	void set(double v) const noexcept { sl_gauge_f64_set(h_, v); }
	void add(double v) const noexcept { sl_gauge_f64_add(h_, v); }
	double value() const noexcept { return sl_gauge_f64_value(h_); }
};

class histogram : public handle<sl_histogram>
{
      public:
	using handle::handle;
	void observe(double v) const noexcept { sl_histogram_observe(h_, v); }
	std::uint64_t count() const noexcept { return sl_histogram_count(h_); }
	double sum() const noexcept { return sl_histogram_sum(h_); }
};

class stateset : public handle<sl_stateset>
{
      public:
	using handle::handle;
	void set(unsigned int state, bool on) const noexcept { sl_stateset_set(h_, state, on); }
};

/* Metrics that differ only in their labels. with() searches a table: keep its result. */
template <class Metric, class Handle, auto With> class family
{
      public:
	family() noexcept = default;
	family(Handle h) noexcept : h_(h) {}
	Metric with(std::initializer_list<sl_label> labels) const noexcept
	{
		return With(h_, labels.begin(), labels.size());
	}
	Metric with(const sl_label *labels, std::size_t count) const noexcept
	{
		return With(h_, labels, count);
	}

      private:
	Handle h_{};
};

using counter_family = family<counter, sl_counter_family, sl_counter_with>;
using counter_f64_family = family<counter_f64, sl_counter_f64_family, sl_counter_f64_with>;
using gauge_family = family<gauge, sl_gauge_family, sl_gauge_with>;
using gauge_f64_family = family<gauge_f64, sl_gauge_f64_family, sl_gauge_f64_with>;
using histogram_family = family<histogram, sl_histogram_family, sl_histogram_with>;
using stateset_family = family<stateset, sl_stateset_family, sl_stateset_with>;

/* ---- publisher ---- */

/* If opening fails the publisher is empty: error() has the reason, and its metrics do nothing. */
class publisher
{
      public:
	explicit publisher(const char *service = nullptr) noexcept
	{
		auto o = opts<sl_publisher_opts>();

		o.service = service;
		open(o);
	}
	explicit publisher(const sl_publisher_opts &o) noexcept { open(o); }
	publisher(publisher &&from) noexcept
	    : p_(std::exchange(from.p_, nullptr)), error_(from.error_)
	{
	}
	publisher &operator=(publisher &&from) noexcept
	{
		std::swap(p_, from.p_);
		std::swap(error_, from.error_);
		return *this;
	}
	~publisher() { sl_publisher_close(p_); }

	explicit operator bool() const noexcept { return p_; }
	int error() const noexcept /* 0, or an errno of sl_publisher_open() */ { return error_; }
	sl_publisher *get() const noexcept { return p_; }
	bool attached() const noexcept { return sl_publisher_attached(p_); }
	bool alarmed() const noexcept { return sl_publisher_alarmed(p_); }
	struct sl_publisher_stats stats() const noexcept /* all 0 if the publisher is empty */
	{
		auto s = opts<struct sl_publisher_stats>();

		sl_publisher_stats(p_, &s);
		return s;
	}
	/* not known if the publisher is empty */
	struct sl_publisher_verdict verdict() const noexcept
	{
		auto v = opts<struct sl_publisher_verdict>();

		sl_publisher_verdict(p_, &v);
		return v;
	}

	/* Each function takes options, see metric(), or name, help and unit. */
	sidelight::counter counter(const sl_metric_opts &o) noexcept
	{
		return sl_counter_create(p_, &o);
	}
	sidelight::counter_f64 counter_f64(const sl_metric_opts &o) noexcept
	{
		return sl_counter_f64_create(p_, &o);
	}
	sidelight::gauge gauge(const sl_metric_opts &o) noexcept { return sl_gauge_create(p_, &o); }
	sidelight::gauge_f64 gauge_f64(const sl_metric_opts &o) noexcept
	{
		return sl_gauge_f64_create(p_, &o);
	}
	/* Classic buckets if bounds are set, otherwise exponential ones. */
	sidelight::histogram histogram(const sl_metric_opts &o) noexcept
	{
		return o.bounds ? sl_histogram_create_classic(p_, &o) : sl_histogram_create(p_, &o);
	}
	sidelight::stateset stateset(const sl_metric_opts &o) noexcept
	{
		return sl_stateset_create(p_, &o);
	}
	int info(const sl_metric_opts &o) noexcept /* returns 0 or -errno */
	{
		return sl_info_create(p_, &o);
	}

	sidelight::counter_family counter_family(const sl_metric_opts &o) noexcept
	{
		return sl_counter_family_create(p_, &o);
	}
	sidelight::counter_f64_family counter_f64_family(const sl_metric_opts &o) noexcept
	{
		return sl_counter_f64_family_create(p_, &o);
	}
	sidelight::gauge_family gauge_family(const sl_metric_opts &o) noexcept
	{
		return sl_gauge_family_create(p_, &o);
	}
	sidelight::gauge_f64_family gauge_f64_family(const sl_metric_opts &o) noexcept
	{
		return sl_gauge_f64_family_create(p_, &o);
	}
	sidelight::histogram_family histogram_family(const sl_metric_opts &o) noexcept
	{
		return o.bounds ? sl_histogram_family_create_classic(p_, &o)
				: sl_histogram_family_create(p_, &o);
	}
	sidelight::stateset_family stateset_family(const sl_metric_opts &o) noexcept
	{
		return sl_stateset_family_create(p_, &o);
	}

#define SL__BY_NAME(type)                                                  \
	sidelight::type type(const char *name, const char *help = nullptr, \
			     const char *unit = nullptr) noexcept          \
	{                                                                  \
		return type(metric(name, help, unit));                     \
	}
	SL__BY_NAME(counter)
	SL__BY_NAME(counter_f64)
	SL__BY_NAME(gauge)
	SL__BY_NAME(gauge_f64)
	SL__BY_NAME(histogram)
	SL__BY_NAME(counter_family)
	SL__BY_NAME(counter_f64_family)
	SL__BY_NAME(gauge_family)
	SL__BY_NAME(gauge_f64_family)
	SL__BY_NAME(histogram_family)
#undef SL__BY_NAME

	sl_span_name span_name(const char *name) noexcept
	{
		return sl_span_name_create(p_, name);
	}
	sl_span_key span_key(const char *key) noexcept
	{
		return sl_span_key_create(p_, key);
	}

      private:
	void open(const sl_publisher_opts &o) noexcept
	{
		p_ = sl_publisher_open(&o);
		error_ = p_ ? 0 : errno;
	}

	sl_publisher *p_ = nullptr;
	int error_ = 0;
};

/* ---- spans ---- */

/* Parses the caller's context; the result is invalid if the header is malformed or missing. */
inline sl_trace_context parse_traceparent(std::string_view header) noexcept
{
	sl_trace_context context{};

	sl_traceparent_parse(header.data(), header.size(), &context);
	return context;
}

/* A span that ends with its scope. It belongs to one thread at a time. */
class span
{
      public:
	/* Starts the root span of a trace. */
	explicit span(sl_span_name name, sl_span_kind kind = SL_SPAN_INTERNAL) noexcept
	{
		sl_span_start(&s_, name, kind, nullptr);
	}
	/* Starts a child span; parent is another span's context(), or the caller's. */
	span(sl_span_name name, sl_span_kind kind, const sl_trace_context &parent) noexcept
	{
		sl_span_start(&s_, name, kind, &parent);
	}
	span(const span &) = delete;
	span &operator=(const span &) = delete;
	~span() { sl_span_end(&s_); }

	const sl_trace_context &context() const noexcept { return s_.context; }
	void end() noexcept /* ends the span before its scope ends */ { sl_span_end(&s_); }
	void status(sl_span_status status, const char *message = nullptr) noexcept
	{
		sl_span_set_status(&s_, status, message);
	}

	/* Sets attributes: bool, integers, floating-point numbers, strings. */
	template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
	void set(sl_span_key key, T value) noexcept
	{
		if constexpr (std::is_same_v<T, bool>)
			sl_span_set_bool(&s_, key, value);
		else if constexpr (std::is_integral_v<T>)
			sl_span_set_i64(&s_, key, static_cast<std::int64_t>(value));
		else
			sl_span_set_f64(&s_, key, static_cast<double>(value));
	}
	void set(sl_span_key key, std::string_view value) noexcept
	{
		sl_span_set_text(&s_, key, value.data(), value.size());
	}

      private:
	sl_span s_;
};

} // namespace sidelight

#endif
