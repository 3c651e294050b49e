// SPDX-License-Identifier: Apache-2.0
// heat.js - a heat map of the observations of histograms: one column per time step, one row per bucket; darker means more.
import {$, put} from "./dom.js";
import {clock, grouped, number, trimmed, withUnit} from "./format.js";
import {TimePlot} from "./plot.js";

// Colours from few to many observations, for a white and a black background; all of them differ visibly from the background.
const RAMPS = {
	light: [[222, 235, 247], [158, 202, 225], [66, 146, 198], [8, 81, 156], [8, 34, 84]],
	dark: [[24, 48, 74], [30, 96, 140], [44, 150, 150], [150, 200, 110], [253, 231, 90]],
};
const dark = matchMedia("(prefers-color-scheme: dark)");

// share: 0 (few) to 1 (most)
function shade(share) {
	const ramp = RAMPS[dark.matches ? "dark" : "light"], at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
	const i = Math.min(Math.floor(at), ramp.length - 2), part = at - i;
	return `rgb(${ramp[i].map((v, k) => Math.round(v + (ramp[i + 1][k] - v) * part)).join()})`;
}

// Counts differ by powers of ten, so the colour depends on their logarithm.
const share = (n, most) => most > 1 ? 0.12 + 0.88 * Math.log(n) / Math.log(most) : 1;

export class HeatPlot extends TimePlot {
	// map: the answer of /api/v1/heat, with numbers for bounds
	drawHeat(map, from, to) {
		const shape = map.bounds.join();
		this.map = map;
		this.most = Math.max(1, ...map.columns.map(([, counts]) => Math.max(0, ...counts)));
		if (shape !== this.shape)
			this.key = "";
		this.shape = shape;
		const t = map.columns.map(([at]) => at);
		this.draw(map.bounds.length ? [{key: "heat", slot: 0, unit: "", rate: false, t, v: t.map(() => 0)}] : [], from, to);
		this.drawLegend();
	}

	options() {
		const o = super.options(), rows = this.map.bounds.length;
		const every = Math.max(1, Math.ceil(rows * 15 / Math.max(60, this.size().height - 60)));
		o.scales[""] = {range: () => [0, rows]};
		o.axes[1] = {
			...o.axes[1], grid: {show: false},
			splits: () => Array.from({length: Math.floor(rows / every) + 1}, (_, i) => i * every),
			values: (u, splits) => splits.map((i) => i ? this.bound(i - 1) : this.map.low === null ? "" :
				trimmed(withUnit(this.map.low, this.map.unit))),
		};
		o.series[1] = {...o.series[1], width: 0, stroke: "transparent"};
		o.cursor.points = {show: false};
		o.cursor.y = true;
		o.hooks.drawAxes = [(u) => this.paint(u)];
		return o;
	}

	bound(i) {
		const b = this.map.bounds[i];
		return Number.isFinite(b) ? trimmed(withUnit(b, this.map.unit)) : "∞";
	}

	paint(u) {
		const c = u.ctx, {left, top, width, height} = u.bbox, rows = this.map.bounds.length;
		const step = this.map.step_seconds, tall = height / rows;
		c.save();
		c.beginPath();
		c.rect(left, top, width, height);
		c.clip();
		for (const [at, counts] of this.map.columns) {
			const x0 = Math.floor(u.valToPos(at - step, "x", true)), x1 = Math.ceil(u.valToPos(at, "x", true));
			if (x1 < left || x0 > left + width)
				continue;
			counts.forEach((n, i) => {
				if (!n)
					return;
				const y = top + height - (i + 1) * tall;
				c.fillStyle = shade(share(n, this.most));
				c.fillRect(x0, Math.floor(y), Math.max(1, x1 - x0), Math.ceil(tall));
			});
		}
		c.restore();
	}

	// Describes the cell under the cursor: {text, n}, or null.
	under() {
		const u = this.plot, {left, top} = u?.cursor || {};
		if (!u || left < 0 || top < 0)
			return null;
		const at = u.posToVal(left, "x"), row = Math.floor(u.posToVal(top, ""));
		const column = this.map.columns.find(([t]) => at > t - this.map.step_seconds && at <= t);
		if (!column || row < 0 || row >= this.map.bounds.length)
			return null;
		const n = column[1][row], all = column[1].reduce((a, b) => a + b, 0);
		const low = row ? this.bound(row - 1) : this.map.low === null ? "−∞" : trimmed(withUnit(this.map.low, this.map.unit));
		return {
			t: column[0], range: `${low} … ${this.bound(row)}`, n, all,
			text: `${clock(column[0], false)}  ${low} … ${this.bound(row)}: ${grouped(n)} of ${grouped(all)}` +
				(all ? ` (${number(Math.round(1000 * n / all) / 10)} %)` : ""),
		};
	}

	drawLegend() {
		const canvas = $("heat-ramp"), c = canvas.getContext("2d");
		canvas.width = 100;
		canvas.height = 1;
		for (let x = 0; x < 100; x++) {
			c.fillStyle = shade(0.12 + 0.88 * x / 99);
			c.fillRect(x, 0, 1, 1);
		}
		put($("heat-low"), "1");
		put($("heat-high"), `${grouped(this.most)} per ${number(this.map.step_seconds)} s`);
	}
}
