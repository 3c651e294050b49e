/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Exposer publishes the Collectables registered with it. It opens no port, because readers take
 * the values from this process' memory, and 'sidelight collect' serves /metrics of all processes.
 * Registries publish by themselves; the application's own Collectables are collected every
 * $SIDELIGHT_COLLECT_SECONDS, by default 5. One line on stderr says so.
 */
#ifndef SIDELIGHT_PROMETHEUS_EXPOSER_H
#define SIDELIGHT_PROMETHEUS_EXPOSER_H

#include <cstddef>
#include <cstdio>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/detail/mirror.h"

struct CivetCallbacks;

namespace prometheus
{
/* Any thread may use it. */
class Exposer
{
      public:
	explicit Exposer(const std::string &bind_address, const std::size_t num_threads = 2,
			 const CivetCallbacks *callbacks = nullptr)
	{
		static_cast<void>(num_threads);
		static_cast<void>(callbacks);
		Say(bind_address);
	}
	explicit Exposer(std::vector<std::string> options,
			 const CivetCallbacks *callbacks = nullptr)
	{
		static_cast<void>(callbacks);
		for (std::size_t i = 0; i + 1 < options.size(); i += 2)
			if (options[i] == "listening_ports")
				Say(options[i + 1]);
	}
	Exposer(const Exposer &) = delete;
	Exposer(Exposer &&) = delete;
	Exposer &operator=(const Exposer &) = delete;
	Exposer &operator=(Exposer &&) = delete;

	void RegisterCollectable(const std::weak_ptr<Collectable> &collectable,
				 const std::string &uri = std::string("/metrics"))
	{
		std::lock_guard<std::mutex> guard(mutex_);
		const std::shared_ptr<Collectable> from = collectable.lock();

		if (from && !dynamic_cast<const detail::PublishesItself *>(from.get()))
			mirrors_.push_back({from.get(), uri, MakeMirror(collectable)});
	}
	void RemoveCollectable(const std::weak_ptr<Collectable> &collectable,
			       const std::string &uri = std::string("/metrics"))
	{
		std::lock_guard<std::mutex> guard(mutex_);
		const std::shared_ptr<Collectable> from = collectable.lock();

		mirrors_.remove_if(
			[&](const Entry &e) { return e.from == from.get() && e.uri == uri; });
	}
	/* Does nothing, because no port is open: 'sidelight collect' has its own access rights. */
	void RegisterAuth(std::function<bool(const std::string &, const std::string &)> authCB,
			  const std::string &realm = "Prometheus-cpp Exporter",
			  const std::string &uri = std::string("/metrics"))
	{
		static_cast<void>(authCB);
		static_cast<void>(realm);
		static_cast<void>(uri);
	}
	/* None. */
	std::vector<int> GetListeningPorts() const { return {}; }

      private:
	struct Entry {
		const Collectable *from;
		std::string uri;
		std::unique_ptr<detail::Mirror> mirror;
	};

	static std::unique_ptr<detail::Mirror>
	MakeMirror(const std::weak_ptr<Collectable> &collectable)
	{
		return std::unique_ptr<detail::Mirror>(new detail::Mirror(collectable));
	}
	static void Say(const std::string &address)
	{
		static std::once_flag once;

		std::call_once(once, [&] {
			std::fprintf(stderr,
				     "sidelight: prometheus::Exposer opens no port (%s): an agent "
				     "has the metrics, and sidelight collect serves /metrics\n",
				     address.c_str());
		});
	}

	std::mutex mutex_;
	std::list<Entry> mirrors_;
};
} // namespace prometheus

#endif
