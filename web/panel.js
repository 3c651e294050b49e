// SPDX-License-Identifier: Apache-2.0
// panel.js - a panel of the view of connections. It polls every two seconds while the view is open and the collector
// has such data, and is hidden otherwise.
import {$} from "./dom.js";
import {Poller, Problem, get, link} from "./server.js";

const PERIOD = () => 2000;

// path: path in the API, key of /status that lists the hosts with such data, and prefix of the panel's id.
// hooks: {state, status}, set by start() of the panel's module.
export function panel(path, hooks, params, draw) {
	const hide = () => {
		$(`${path}-panel`).hidden = true;
	};
	return new Poller(async () => {
		const app = hooks();
		if (app.state.tab !== "flows" || !app.status?.[path]?.length)
			return hide();
		try {
			draw(await get(path, params()));
		} catch (e) {
			if (!(e instanceof Problem) || !e.status || e.refused)
				throw e;
			hide(); // the list below reports an invalid search
		}
		link.ok();
	}, PERIOD);
}
