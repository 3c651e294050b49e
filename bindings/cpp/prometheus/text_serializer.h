/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format 0.0.4, for applications that serialize their registries themselves. */
#ifndef SIDELIGHT_PROMETHEUS_TEXT_SERIALIZER_H
#define SIDELIGHT_PROMETHEUS_TEXT_SERIALIZER_H

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "prometheus/serializer.h"

namespace prometheus
{
namespace detail
{
/* Formats a number with 16 digits, or with 17 if 16 do not represent it exactly. */
inline std::string TextNumber(double v)
{
	char text[32];

	if (std::isnan(v))
		return "Nan";
	if (std::isinf(v))
		return v < 0 ? "-Inf" : "+Inf";
	std::snprintf(text, sizeof(text), "%.16g", v);
	if (std::strtod(text, nullptr) != v)
		std::snprintf(text, sizeof(text), "%.17g", v);
	return text;
}

inline std::string TextEscaped(const std::string &s, bool quotes)
{
	std::string out;

	for (char c : s)
		if (c == '\n')
			out += "\\n";
		else if (c == '\\' || (quotes && c == '"'))
			(out += '\\') += c;
		else
			out += c;
	return out;
}

/* The lines of one metric. */
class TextMetric
{
      public:
	TextMetric(std::ostream &out, const std::string &name, const ClientMetric &m)
	    : out_(out), name_(name), m_(m)
	{
	}
	void Line(const char *suffix, const std::string &value, const char *key = nullptr,
		  double bound = 0) const
	{
		const char *separator = "{";

		out_ << name_ << suffix;
		for (const auto &label : m_.label) {
			out_ << separator << label.name << "=\"" << TextEscaped(label.value, true)
			     << '"';
			separator = ",";
		}
		if (key)
			out_ << separator << key << "=\"" << TextNumber(bound) << '"';
		if (key || !m_.label.empty())
			out_ << '}';
		out_ << ' ' << value;
		if (m_.timestamp_ms)
			out_ << ' ' << std::to_string(m_.timestamp_ms);
		out_ << '\n';
	}
	void Summary() const
	{
		Line("_count", std::to_string(m_.summary.sample_count));
		Line("_sum", TextNumber(m_.summary.sample_sum));
		for (const auto &q : m_.summary.quantile)
			Line("", TextNumber(q.value), "quantile", q.quantile);
	}
	void Histogram() const
	{
		const double infinity = std::numeric_limits<double>::infinity();
		bool ended = false;

		Line("_count", std::to_string(m_.histogram.sample_count));
		Line("_sum", TextNumber(m_.histogram.sample_sum));
		for (const auto &b : m_.histogram.bucket) {
			Line("_bucket", std::to_string(b.cumulative_count), "le", b.upper_bound);
			ended = b.upper_bound == infinity;
			if (ended)
				break;
		}
		if (!ended)
			Line("_bucket", std::to_string(m_.histogram.sample_count), "le", infinity);
	}

      private:
	std::ostream &out_;
	const std::string &name_;
	const ClientMetric &m_;
};
} // namespace detail

class TextSerializer : public Serializer
{
      public:
	using Serializer::Serialize;
	void Serialize(std::ostream &out, const std::vector<MetricFamily> &metrics) const override
	{
		for (const auto &family : metrics)
			Write(out, family);
	}

      private:
	static void Write(std::ostream &out, const MetricFamily &family)
	{
		static const char *const types[] = {
			"counter", "gauge",	"summary",
			"untyped", "histogram", "gauge" /* the text format has no info type */};

		if (!family.help.empty())
			out << "# HELP " << family.name << ' '
			    << detail::TextEscaped(family.help, false) << '\n';
		out << "# TYPE " << family.name << ' ' << types[static_cast<int>(family.type)]
		    << '\n';
		for (const auto &m : family.metric) {
			const detail::TextMetric text(out, family.name, m);

			switch (family.type) {
			case MetricType::Counter:
				text.Line("", detail::TextNumber(m.counter.value));
				break;
			case MetricType::Gauge:
				text.Line("", detail::TextNumber(m.gauge.value));
				break;
			case MetricType::Untyped:
				text.Line("", detail::TextNumber(m.untyped.value));
				break;
			case MetricType::Summary:
				text.Summary();
				break;
			case MetricType::Histogram:
				text.Histogram();
				break;
			case MetricType::Info:
				text.Line("_info", detail::TextNumber(m.info.value));
				break;
			}
		}
	}
};
} // namespace prometheus

#endif
