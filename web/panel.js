// SPDX-License-Identifier: Apache-2.0
// panel.js - a panel of the view of connections that is there only while somebody looks, there is something to
// ask about, and it can be answered: asked every two seconds, hidden otherwise.
import {$} from "./dom.js";
import {Poller, Problem, get, link} from "./server.js";

const PERIOD = () => 2000;

// path: of the API, the key of /status that lists who tells of it, and the beginning of the panel's id.
// hooks: {state, status}, set by start() of who owns the panel.
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
			if (!(e instanceof Problem) || !e.status)
				throw e;
			hide(); // a search that can't be answered: the list below says so
		}
		link.ok();
	}, PERIOD);
}
