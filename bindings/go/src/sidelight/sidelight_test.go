// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var ctx = context.Background()

// Examples use the default publisher, which must not attach to an agent of this machine.
func TestMain(m *testing.M) {
	os.Setenv("SIDELIGHT_SOCKET", filepath.Join(os.TempDir(), "no-agent-is-here"))
	os.Exit(m.Run())
}

// open creates a publisher without an agent.
func open(t testing.TB, o Options) *Publisher {
	t.Helper()
	o.Socket = filepath.Join(t.TempDir(), "none")
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// parallel runs f in n goroutines, on 4 processors.
func parallel(t testing.TB, n int, f func(i int)) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var all sync.WaitGroup
	for i := 0; i < n; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			f(i)
		}(i)
	}
	all.Wait()
}

// verify compares all lines in use with their check words, while nobody writes.
func verify(t testing.TB, p *Publisher) {
	t.Helper()
	for _, r := range p.regions {
		for stripe := 0; stripe < r.stripesUsed; stripe++ {
			for line := uint32(0); line < r.linesUsed; line++ {
				var check uint64
				at := uintptr(line) * lineSize
				for i := uintptr(0); i < lineCells; i++ {
					cell := *wordAt(r.stripe(stripe), at+i*8)
					if stripe == 0 {
						check += mix(cell, lineK[i])
					} else {
						check += cell * lineK[i]
					}
				}
				if check != *wordAt(r.stripe(stripe), at+lineCells*8) {
					t.Errorf("line %d of stripe %d does not verify", line, stripe)
				}
			}
		}
	}
}

func vectors(t *testing.T, name string, f func(words []string)) {
	file, err := os.Open(filepath.Join("../../../../tests/conformance/vectors", name))
	if err != nil {
		t.Skip("SKIP: without the source of Sidelight there are no vectors")
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); words[0] != "#" {
			f(words)
		}
	}
}

func number(t *testing.T, text string) uint64 {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLinesAreThoseOfTheVectors(t *testing.T) {
	vectors(t, "lines.txt", func(words []string) {
		var c [lineCells]uint64
		sums := map[string]uint64{}
		for i := range c {
			c[i] = number(t, words[1+i])
			sums["plain"] += c[i] * lineK[i]
			sums["mixed"] += mix(c[i], lineK[i])
		}
		sums["sealed"] = sealed(&c)
		if sum, known := sums[words[0]]; known && sum != number(t, words[8]) {
			t.Errorf("%v: %x", words, sum)
		}
	})
	vectors(t, "f64.txt", func(words []string) {
		v := math.Float64frombits(number(t, words[0]))
		if cell := number(t, words[1]); cellOf(v) != cell || math.Float64bits(numberOf(cell)) != math.Float64bits(v) {
			t.Errorf("%v: %x", words, cellOf(v))
		}
	})
	vectors(t, "fnv.txt", func(words []string) {
		var data []byte
		for _, w := range words[1:] {
			if w[0] == '@' {
				n, _ := strconv.Atoi(w[1:])
				data = append(data, make([]byte, n)...)
				continue
			}
			b, err := hex.DecodeString(w)
			if err != nil {
				t.Fatal(err)
			}
			data = append(data, b...)
		}
		if fnv1a(fnvBasis, data) != number(t, words[0]) {
			t.Errorf("%v", words)
		}
	})
}

func TestGoroutinesLoseNothing(t *testing.T) {
	for _, stripes := range []int{maxStripes, 1, 0} { // 0: all share stripe 0
		p := open(t, Options{})
		for i := stripes; i < maxStripes; i++ {
			p.regions[0].denied[i].Store(true)
		}
		counter := p.NewCounter(Opts{Name: "a_total"})
		float := p.NewFloatCounter(Opts{Name: "b_total"})
		gauge := p.NewGauge(Opts{Name: "c"})
		classic := p.NewHistogram(HistogramOpts{Opts: Opts{Name: "d"}, Buckets: []float64{1, 2}})
		exponential := p.NewHistogram(HistogramOpts{Opts: Opts{Name: "e"}})
		summary := p.NewSummary(Opts{Name: "f"})
		vec := p.NewCounterVec(Opts{Name: "g_total"}, "i")
		const goroutines, rounds = 8, 20000
		parallel(t, goroutines, func(int) {
			for i := 0; i < rounds; i++ {
				counter.Inc()
				counter.Add(2)
				float.Add(0.5)
				gauge.Inc()
				classic.Observe(float64(i % 4))
				exponential.Observe(float64(i % 4))
				summary.Observe(2)
				vec.With(strconv.Itoa(i % 3)).Inc()
				if i%1000 == 0 {
					runtime.Gosched()
				}
			}
		})
		const n = goroutines * rounds
		var labelled uint64
		for i := 0; i < 3; i++ {
			labelled += vec.With(strconv.Itoa(i)).Value()
		}
		if counter.Value() != 3*n || float.Value() != n/2 || gauge.Value() != n || classic.Count() != n || classic.Sum() != 1.5*n ||
			exponential.Count() != n || exponential.Sum() != 1.5*n || summary.Count() != n || summary.Sum() != 2*n || labelled != n {
			t.Error(counter.Value(), float.Value(), gauge.Value(), classic.Count(), classic.Sum(), exponential.Count(),
				exponential.Sum(), summary.Count(), summary.Sum(), labelled)
		}
		verify(t, p)
	}
}

func TestNewSeriesHasNothingOfTheOld(t *testing.T) {
	defer func(d time.Duration) { replaceAfter = d }(replaceAfter)
	replaceAfter = time.Millisecond
	p := open(t, Options{})
	vec := p.NewCounterVec(Opts{Name: "a_total"}, "of")
	var handle atomic.Value
	handle.Store(vec.With("00000000"))
	var stop atomic.Bool
	parallel(t, 4, func(i int) {
		if i != 0 {
			for !stop.Load() {
				handle.Load().(*Counter).Inc()
			}
			return
		}
		defer stop.Store(true)
		for round := 1; round < 100; round++ {
			vec.Remove(fmt.Sprintf("%08d", round-1))
			time.Sleep(2 * time.Millisecond)
			next := vec.With(fmt.Sprintf("%08d", round)) // in the same place
			if v := next.Value(); v != 0 {
				t.Errorf("round %d begins at %d", round, v)
				return
			}
			if runtime.Gosched(); next.Value() != 0 {
				t.Errorf("round %d: a handle of a removed series counts", round)
				return
			}
			handle.Store(next)
			for next.Value() == 0 {
				runtime.Gosched()
			}
		}
	})
	if used := p.regions[0].records; used > 2 {
		t.Errorf("%d records were used", used)
	}
	verify(t, p)
}

func TestPlaceIsTakenOnceNobodyWritesIt(t *testing.T) {
	defer func(d time.Duration) { replaceAfter = d }(replaceAfter)
	replaceAfter = 0
	p := open(t, Options{})
	vec := p.NewCounterVec(Opts{Name: "a_total"}, "of")
	old := vec.With("x")
	old.Inc()
	var pinned atomic.Bool
	parallel(t, 2, func(i int) {
		if i == 0 { // a writer that is slow between its two steps
			place, base := old.base()
			pinned.Store(true)
			for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
			}
			if base != nil {
				ownAdd(base, place.spot, 1000)
			} else {
				mixedAdd(place.shared, place.spot, 1000)
			}
			procUnpin()
			return
		}
		for !pinned.Load() {
			runtime.Gosched()
		}
		vec.Remove("x")
		vec.With("y")
	})
	if v := vec.With("y").Value(); v != 0 || p.regions[0].records != 1 {
		t.Errorf("a late update of the old series: %d", v)
	}
	verify(t, p)
}

func TestRemovedSeriesComesBackFromZero(t *testing.T) {
	p := open(t, Options{})
	vec := p.NewFloatCounterVec(Opts{Name: "a_total"}, "of")
	old := vec.With("x")
	old.Add(2.5)
	if !vec.Remove("x") || vec.Remove("x") {
		t.Error("Remove does not say whether there was one")
	}
	old.Add(1)
	if v := vec.With("x").Value(); v != 0 || old.Value() != 0 {
		t.Error(v, old.Value())
	}
	vec.With("x").Add(3)
	if v := vec.With("x").Value(); v != 3 {
		t.Error(v)
	}
	vec.Reset()
	if len(p.records) != 1 || p.records["a_total\x00of\x00x\x00"].removed.IsZero() {
		t.Error("Reset leaves a series")
	}
}

func TestCloseWhileGoroutinesCount(t *testing.T) {
	p := open(t, Options{SpanLines: 512})
	counter := p.NewCounter(Opts{Name: "a_total"})
	histogram := p.NewHistogram(HistogramOpts{Opts: Opts{Name: "b"}})
	gauge := p.NewGauge(Opts{Name: "c", Combine: MostRecent})
	var stop atomic.Bool
	parallel(t, 5, func(i int) {
		if i == 0 {
			time.Sleep(20 * time.Millisecond)
			p.Close()
			time.Sleep(20 * time.Millisecond)
			stop.Store(true)
			return
		}
		for n := 0; !stop.Load(); n++ {
			counter.AddWithExemplar(1, Labels{"i": "1"})
			histogram.ObserveWithExemplar(1, Labels{"i": "1"})
			gauge.Set(1)
			counter.Value()
			p.NewCounter(Opts{Name: fmt.Sprintf("d%d_total", n%100)}).Inc()
			_, span := p.StartSpan(ctx, "span", SpanInternal)
			span.End()
		}
	})
	if counter.Value() != 0 || p.Close() != nil {
		t.Error("a closed publisher counts")
	}
}

func TestFullPublisherRefusesAndCounts(t *testing.T) {
	p := open(t, Options{Cells: 60, MaxRegions: 2})
	vec := p.NewCounterVec(Opts{Name: "a_total"}, "i")
	for i := 0; i < 1000; i++ {
		vec.With(strconv.Itoa(i)).Inc()
	}
	if len(p.regions) != 2 || p.Refused() < 700 || p.Refused() > 900 {
		t.Error(len(p.regions), p.Refused())
	}
	if v := *wordAt(p.regions[0].hotLine(), hotRefused*8); v != p.Refused() {
		t.Error("the hot line says", v)
	}
	for _, o := range []Opts{{Name: "0"}, {Name: ""}, {Name: "b", Labels: Labels{"__x": ""}}, {Name: "b", Unit: "ä"},
		{Name: "b", Combine: 7}, {Name: "b", Labels: Labels{"x": strings.Repeat("v", 2000)}}} {
		before := p.Refused()
		p.NewCounter(o).Inc()
		if p.Refused() != before+1 {
			t.Errorf("%+v is not refused", o)
		}
	}
	verify(t, p)
}

func TestWrongUseIsRefused(t *testing.T) {
	p := open(t, Options{})
	f := p.NewFloatCounter(Opts{Name: "a_total"})
	f.Add(1)
	f.Add(-1)
	f.Add(math.NaN())
	f.Add(math.Inf(1))
	s := p.NewSummary(Opts{Name: "b"})
	s.Observe(math.Inf(1))
	h := p.NewHistogram(HistogramOpts{Opts: Opts{Name: "c"}, Buckets: []float64{1, math.Inf(1)}})
	h.Observe(math.NaN())
	h.Observe(math.Inf(1))
	h.Observe(math.Inf(-1))
	if f.Value() != 1 || s.Count() != 0 || h.Count() != 1 || !math.IsInf(h.Sum(), 1) {
		t.Error(f.Value(), s.Count(), h.Count(), h.Sum())
	}
	if v := *wordAt(p.regions[0].hotLine(), hotRefused*8); v != 4 {
		t.Error("the hot line says", v)
	}
	if p.NewGauge(Opts{Name: "a_total"}).Set(1); p.Refused() != 1 {
		t.Error("another metric has the name")
	}
	if p.NewFloatCounter(Opts{Name: "a_total"}) != f {
		t.Error("it is not the one that is there")
	}
	var none *Publisher
	none.NewCounterVec(Opts{Name: "a"}, "x").With("1").Inc()
	none.NewInfo(Opts{Name: "a"}).Set(Labels{"x": "1"})
	_, span := none.StartSpan(ctx, "x", SpanServer)
	span.SetString("x", "y")
	span.End()
	none.NewCopier().Copy([]Series{{Name: "a"}}, true)
}

func TestBucketsAreThoseOfTheFormat(t *testing.T) {
	boundsOnce.Do(fillBounds)
	random := rand.New(rand.NewSource(1))
	for scale := -4; scale <= 8; scale++ {
		bound := func(i int) float64 { return math.Exp2(float64(i) * math.Exp2(float64(-scale))) }
		for n := 0; n < 20000; n++ {
			v := math.Exp2(random.Float64()*200 - 100)
			if i := bucketOf(v, scale); !(bound(i-1) < v*(1+1e-14) && v <= bound(i)*(1+1e-14)) {
				t.Fatalf("%g at scale %d is in %d", v, scale, i)
			}
		}
		for e := -64; e <= 64; e += 16 { // bounds of all scales, which are exact
			v := math.Exp2(float64(e))
			i := int(float64(e) * math.Exp2(float64(scale)))
			if bucketOf(v, scale) != i || bucketOf(math.Nextafter(v, math.Inf(1)), scale) != i+1 {
				t.Errorf("%g at scale %d is in %d", v, scale, bucketOf(v, scale))
			}
		}
	}
	h := open(t, Options{}).NewHistogram(HistogramOpts{Opts: Opts{Name: "a"}, Min: 0.5, Max: 100, Factor: 2})
	if h.scale != 0 || h.first != 0 || h.count != 8 { // up to 1, 2, 4 ... 128
		t.Error(h.scale, h.first, h.count)
	}
	for v, cell := range map[float64]uint32{-1: histRefused, 0.5: 2, -0.5: 2, 0.6: 3, 1: 3, 1.1: 4, 128: 10, 129: 11, math.Inf(1): 11} {
		if h.bucket(v) != cell {
			t.Errorf("%g is in %d", v, h.bucket(v))
		}
	}
}

func TestTraceparentIsRead(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if c := ParseTraceparent(good); c.Traceparent() != good || !c.Remote {
		t.Error(c)
	}
	if !ParseTraceparent("01" + good[2:] + "-later").Valid() {
		t.Error("a later version")
	}
	for _, bad := range []string{"", good + "-", good + "x", "ff" + good[2:], strings.ToUpper(good), "00-" + strings.Repeat("0", 32) + good[35:],
		good[:36] + strings.Repeat("0", 16) + good[52:], strings.Replace(good, "-", "_", 1), good[:54], good[:53] + "0g"} {
		if ParseTraceparent(bad).Valid() {
			t.Errorf("%q is taken", bad)
		}
	}
	p := open(t, Options{SpanLines: 512})
	parent, a := p.StartSpan(ContextWithSpanContext(ctx, ParseTraceparent(good)), "a", SpanServer)
	_, b := p.StartSpan(parent, "b", SpanClient)
	if a.Context().TraceID != b.Context().TraceID || b.parent != a.Context().SpanID || a.words[0]>>48&1 != 1 || b.words[0]>>48&1 != 0 {
		t.Error(a.words[0], b.words[0])
	}
}

func TestPacketsOfTheAgentAreRead(t *testing.T) {
	a := newAttachment(&Publisher{})
	packets := map[string][]byte{}
	vectors(t, "attach.txt", func(words []string) {
		packet, err := hex.DecodeString(words[2])
		if err != nil {
			t.Fatal(err)
		}
		packets[words[1]] = packet
		if words[0] == "<" && !a.take(packet) {
			t.Errorf("%v is no packet", words)
		}
	})
	if !a.attached.Load() || !a.alarmed() {
		t.Error("neither attached nor alarmed")
	}
	verdict := packets["VERDICT"]
	verdict[24] &^= 1
	if a.take(verdict); a.alarmed() {
		t.Error("still alarmed")
	}
	for n := range verdict {
		if a.take(verdict[:n]) {
			t.Errorf("%d bytes are a packet", n)
		}
	}
	for i := 0; i < 4; i++ {
		verdict[i]++
		if a.take(verdict) {
			t.Error("another magic")
		}
		verdict[i]--
	}
}

func listen(t *testing.T) (agent *net.UnixListener, socket string) {
	socket = filepath.Join(t.TempDir(), "agent")
	agent, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Close() })
	return agent, socket
}

func TestStoppedAttachmentConnectsNoMore(t *testing.T) {
	_, socket := listen(t)
	a := newAttachment(&Publisher{options: Options{Socket: socket}})
	close(a.ended)
	go a.run()
	select {
	case <-a.done:
	case <-time.After(30 * time.Second):
		t.Error("it waits for the agent")
	}
}

// A publisher that ends at once, before run() came to read the answer to PUBLISH, sends CLOSE all the same.
func TestCloseArrivesThoughTheAnswerWasNotRead(t *testing.T) {
	agent, socket := listen(t)
	a := newAttachment(&Publisher{options: Options{Socket: socket}})
	if err := a.connect(); err != nil {
		t.Fatal(err)
	}
	conn, err := agent.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a.regions = []*region{{instance: 1}}
	if _, err := conn.Write(make([]byte, 24)); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		a.stop()
		close(stopped)
	}()
	<-a.ended
	a.run()
	<-stopped
	var packet [4096]byte
	n, err := conn.Read(packet[:])
	if err != nil || n != 24 || binary.LittleEndian.Uint16(packet[4:]) != packetClose {
		t.Error(n, err)
	}
}

// After EAGAIN, a region is offered again long before it would be after another refusal.
func TestRegionIsOfferedAgainSoonAfterEagain(t *testing.T) {
	agent, socket := listen(t)
	p, err := Open(Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	conn, err := agent.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(retryRefused * 2 / 3))
	for i := 0; i < 3; i++ {
		var packet [4096]byte
		n, err := conn.Read(packet[:])
		if err != nil || n != 32 || binary.LittleEndian.Uint16(packet[4:]) != packetPublish {
			t.Fatal(i, n, err)
		}
		answer := make([]byte, 16+256) // with the magic and serial number of PUBLISH
		copy(answer, packet[:16])
		binary.LittleEndian.PutUint16(answer[4:], packetRefused)
		binary.LittleEndian.PutUint32(answer[8:], 256)
		binary.LittleEndian.PutUint32(answer[16:], uint32(syscall.EAGAIN))
		if _, err := conn.Write(answer); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGaugeFuncIsAsked(t *testing.T) {
	defer func(d time.Duration) { samplePeriod = d }(samplePeriod)
	samplePeriod = time.Millisecond
	p := open(t, Options{})
	var calls atomic.Int64
	p.NewGaugeFunc(Opts{Name: "a"}, func() float64 { return float64(calls.Add(1)) })
	g := p.NewGauge(Opts{Name: "a"}) // the same one
	if g.Value() < 1 {
		t.Error("it begins without a value")
	}
	for begun := g.Value(); g.Value() < begun+3; {
		time.Sleep(time.Millisecond)
	}
	p.Close()
}

func TestZeroMetricsCountNowhere(t *testing.T) {
	var c Counter
	c.Inc()
	c.AddWithExemplar(1, Labels{"x": "y"})
	var g Gauge
	g.Set(1)
	var h Histogram
	h.Observe(1)
	if c.Value() != 0 || h.Count() != 0 {
		t.Error(c.Value(), h.Count())
	}
}

func TestCopierSetsAndEnds(t *testing.T) {
	p := open(t, Options{})
	c := p.NewCopier()
	native := func(first int, counts ...uint64) *NativeBuckets {
		return &NativeBuckets{Schema: 0, ZeroThreshold: 1e-9, First: first, Counts: counts}
	}
	c.Copy([]Series{{Kind: CounterSeries, Name: "a_total", Value: 5}, {Kind: GaugeSeries, Name: "b", Value: 2},
		{Kind: HistogramSeries, Name: "c", Native: native(1, 1, 2, 3)}}, true)
	value := func(name string, cell uint32) uint64 {
		e := p.records[name+"\x00"]
		if e == nil || !e.removed.IsZero() {
			return math.MaxUint64
		}
		return *wordAt(e.region.shared, spotOf(e.cell+cell).at)
	}
	if numberOf(value("a_total", 0)) != 5 || numberOf(value("b", 0)) != 2 {
		t.Error(value("a_total", 0), value("b", 0))
	}
	records := p.regions[0].records
	if c.Copy(nil, false); numberOf(value("b", 0)) != 2 {
		t.Error("an incomplete copy ends a series")
	}
	c.Copy([]Series{{Kind: CounterSeries, Name: "a_total", Value: 3}, {Kind: HistogramSeries, Name: "c", Native: native(-1, 1, 0, 1, 2, 3)}}, true)
	if numberOf(value("a_total", 0)) != 3 || value("b", 0) != math.MaxUint64 || p.regions[0].records != records {
		t.Error("after a reset", value("a_total", 0), value("b", 0))
	}
	first := p.records["c\x00"].shape.first // by 4 below the first one
	if first != -3 || value("c", 3+uint32(-1-first)) != 1 || value("c", 3+uint32(3-first)) != 3 {
		t.Error(first)
	}
	c.Copy([]Series{{Kind: HistogramSeries, Name: "c", Native: native(-9, 7)}}, true)
	if first = p.records["c\x00"].shape.first; first > -9 || value("c", 3+uint32(-9-first)) != 7 {
		t.Error("wider", first)
	}
	if f, counts, scale := (&NativeBuckets{Schema: 9, First: -3, Counts: []uint64{1, 2, 4, 8}}).coarse(); f != -1 || scale != 8 ||
		fmt.Sprint(counts[:2]) != "[3 12]" {
		t.Error(f, counts, scale)
	}
	verify(t, p)
}

func TestUpdatesAllocateNothing(t *testing.T) {
	p := open(t, Options{})
	counter, float, gauge := p.NewCounter(Opts{Name: "a_total"}), p.NewFloatCounter(Opts{Name: "b_total"}), p.NewGauge(Opts{Name: "c"})
	histogram, summary := p.NewHistogram(HistogramOpts{Opts: Opts{Name: "d"}}), p.NewSummary(Opts{Name: "e"})
	state := p.NewStateSet(Opts{Name: "f"}, "on")
	vec := p.NewCounterVec(Opts{Name: "g_total"}, "x", "y")
	n := testing.AllocsPerRun(1000, func() {
		counter.Inc()
		float.Add(1)
		gauge.Add(1)
		histogram.Observe(1)
		summary.Observe(1)
		state.Set("on", true)
		vec.With("1", "2").Inc()
	})
	if n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkInc(b *testing.B) {
	c := open(b, Options{}).NewCounter(Opts{Name: "a_total"})
	for i := 0; i < b.N; i++ {
		c.Inc()
	}
}

func BenchmarkWith(b *testing.B) {
	vec := open(b, Options{}).NewCounterVec(Opts{Name: "a_total"}, "method", "code")
	for i := 0; i < b.N; i++ {
		vec.With("GET", "200").Inc()
	}
}
