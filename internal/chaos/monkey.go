package chaos

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"

	"github.com/payonce/payonce/internal/pspsim"
)

// injected counts the faults by kind.
type injected struct {
	mu    sync.Mutex
	kinds map[string]int
}

func newInjected() *injected { return &injected{kinds: map[string]int{}} }

func (i *injected) add(kind string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kinds[kind]++
}

func (i *injected) counts() map[string]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.kinds)
}

// monkey breaks things. What, when and for how long follows from the seed.
type monkey struct {
	*world
	random  *rand.Rand
	running sync.WaitGroup
	// busy are the things that something is being done to.
	busy []*sync.Mutex

	mu     sync.Mutex
	failed []error
}

func newMonkey(w *world) *monkey {
	m := &monkey{
		world: w, random: rand.New(rand.NewPCG(w.options.Seed, 0)), //nolint:gosec // has to repeat, guards nothing
	}
	for range w.servers {
		m.busy = append(m.busy, &sync.Mutex{})
	}
	return m
}

// trouble is a kind of fault, with how often it comes in relation to the others.
type trouble struct {
	weight int
	strike func(*monkey, context.Context)
}

var troubles = []trouble{
	{70, (*monkey).armProvider},
	{12, (*monkey).notifyAgain},
	{3, (*monkey).loseMails},
	{3, (*monkey).killServer},
	{1, (*monkey).stopServer},
	{3, (*monkey).pauseServer},
	{1, (*monkey).killDatabase},
	{3, (*monkey).cutConnections},
	{3, (*monkey).slowConnections},
	{3, (*monkey).silenceConnections},
}

// rage breaks things until ending is over, and mends them.
func (m *monkey) rage(ctx, ending context.Context) error {
	total := 0
	for _, t := range troubles {
		total += t.weight
	}
	failovers := m.failovers()
	told := time.Now()
	for ending.Err() == nil {
		m.pause(ending, time.Duration(20+m.random.Int64N(200))*time.Millisecond)
		number := m.random.IntN(total)
		for _, t := range troubles {
			if number -= t.weight; number < 0 {
				t.strike(m, ctx)
				break
			}
		}
		if len(failovers) > 0 && time.Since(m.started) > failovers[0] {
			failovers = failovers[1:]
			m.failOver(ctx)
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			m.tell()
		}
	}
	m.running.Wait()
	m.simulator.Disarm()
	m.mailbox.LoseAnswers(0)
	return errors.Join(errors.Join(m.failed...), m.database.heal(ctx))
}

// failovers are the times at which the primary is lost: once in a short run,
// every two minutes in a long one.
func (m *monkey) failovers() []time.Duration {
	if m.options.Failover == NoFailover {
		return nil
	}
	begun := time.Since(m.started)
	times := int(m.options.Duration/(2*time.Minute)) + 1
	each := m.options.Duration / time.Duration(times+1)
	var at []time.Duration
	for i := range times {
		at = append(at, begun+each*time.Duration(i+1))
	}
	return at
}

func (m *monkey) tell() {
	faults := 0
	for _, n := range m.injected.counts() {
		faults += n
	}
	stories, requests, paid := m.diary.count()
	m.say("%d faults, %d requests with %d keys, %d orders seen paid", faults, requests, stories, paid)
}

func (m *monkey) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (m *monkey) between(least, most time.Duration) time.Duration {
	return least + time.Duration(m.random.Int64N(int64(most-least)))
}

func (m *monkey) fail(err error) {
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.failed = append(m.failed, err)
	}
}

var providers = []string{"alipay", "wechat", "stripe", "2c2p"}

var providerFaults = map[string][]string{
	"charge": {"error_before", "error_after", "drop_after", "delay", "decline"},
	"query":  {"error_before", "error_after", "drop_after", "delay"},
	"refund": {"error_before", "error_after", "drop_after", "delay", "decline"},
}

// armProvider has the next calls of a provider fail. A delay may be longer than
// the servers wait: the money then moves after they asked what became of it. It is
// shorter than they hold that possible, which is twice their provider deadline.
func (m *monkey) armProvider(context.Context) {
	op := []string{"charge", "charge", "charge", "query", "query", "refund"}[m.random.IntN(6)]
	faults := providerFaults[op]
	fault := pspsim.Fault{
		Provider: providers[m.random.IntN(len(providers))], Op: op, Fault: faults[m.random.IntN(len(faults))],
		Times: 1 + m.random.IntN(2), DelayMS: 50 + m.random.IntN(3500),
	}
	m.fail(m.simulator.Arm(fault))
	m.injected.add("provider: " + op + " " + fault.Fault)
}

// notifyAgain repeats what a provider told of a paid order, or tells something
// older.
func (m *monkey) notifyAgain(ctx context.Context) {
	bought, ok := m.diary.somePaid(m.random.IntN(1 << 20))
	event := []string{"paid", "paid", "closed", "failed", "waiting", "finished"}[m.random.IntN(6)]
	times := 1 + m.random.IntN(3)
	if !ok {
		return
	}
	m.running.Go(func() {
		// Not every provider has every event; the simulator says so.
		if m.simulator.Notify(ctx, bought.provider, bought.orderID, event, times) == nil {
			m.injected.add("notification sent again")
		}
	})
}

// loseMails has the receiver of mails take some and answer that it had not.
func (m *monkey) loseMails(context.Context) {
	m.mailbox.LoseAnswers(1 + m.random.IntN(3))
	m.injected.add("mail: answer lost")
}

// on does something to one server, unless something is being done to it.
func (m *monkey) on(kind string, do func(server int)) {
	server := m.random.IntN(len(m.servers))
	if !m.busy[server].TryLock() {
		return
	}
	m.injected.add(kind)
	m.running.Go(func() {
		defer m.busy[server].Unlock()
		do(server)
	})
}

func (m *monkey) killServer(ctx context.Context) {
	down := m.between(100*time.Millisecond, 2*time.Second)
	m.on("server: kill -9", func(server int) {
		m.servers[server].Kill()
		time.Sleep(down)
		m.startServer(ctx, server)
	})
}

func (m *monkey) stopServer(ctx context.Context) {
	m.on("server: SIGTERM", func(server int) {
		m.fail(m.servers[server].Stop())
		m.startServer(ctx, server)
	})
}

// startServer tries until the server runs: without a database it does not.
func (m *monkey) startServer(ctx context.Context, server int) {
	var err error
	for began := time.Now(); time.Since(began) < time.Minute && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if err = m.servers[server].Start(ctx); err == nil {
			return
		}
	}
	m.fail(err)
}

// pauseServer stops a server in the middle of what it does. Past the lease it
// is a zombie: others have taken its work over when it goes on.
func (m *monkey) pauseServer(context.Context) {
	kind, asleep := "server: SIGSTOP", m.between(300*time.Millisecond, 4*time.Second)
	if m.random.IntN(2) == 0 {
		kind, asleep = "server: SIGSTOP past the lease", m.between(lease+time.Second, lease+5*time.Second)
	}
	m.on(kind, func(server int) {
		m.servers[server].Pause()
		time.Sleep(asleep)
		m.servers[server].Continue()
	})
}

func (m *monkey) killDatabase(ctx context.Context) {
	down := m.between(50*time.Millisecond, 1500*time.Millisecond)
	if !m.database.mu.TryLock() {
		return
	}
	m.database.mu.Unlock()
	m.injected.add("database: kill -9")
	m.running.Go(func() { m.fail(m.database.crash(ctx, down)) })
}

func (m *monkey) failOver(ctx context.Context) {
	m.say("failover: the primary is killed for good")
	m.injected.add("database: failover")
	m.running.Go(func() {
		began := time.Now()
		m.fail(m.database.failOver(ctx))
		m.say("failover: done, with a new standby, after %.1f s", time.Since(began).Seconds())
	})
}

// onLinks does something to a server's connections to the database.
func (m *monkey) onLinks(kind string, lasts time.Duration, do, undo func(*toxiproxy.Proxy) error) {
	m.on(kind, func(server int) {
		for _, link := range m.database.links[server] {
			m.fail(do(link))
		}
		time.Sleep(lasts)
		for _, link := range m.database.links[server] {
			m.fail(undo(link))
		}
	})
}

func (m *monkey) cutConnections(context.Context) {
	m.onLinks("connections: cut", m.between(time.Millisecond, 1500*time.Millisecond),
		func(link *toxiproxy.Proxy) error { link.Stop(); return nil },
		startLink)
}

func (m *monkey) slowConnections(ctx context.Context) {
	slow := map[string]int64{"latency": 20 + m.random.Int64N(700), "jitter": 20}
	m.onLinks("connections: slow", m.between(time.Second, 5*time.Second),
		func(link *toxiproxy.Proxy) error { return addToxic(link, "latency", "downstream", slow) },
		func(link *toxiproxy.Proxy) error { link.Toxics.ResetToxics(ctx); return nil })
}

// silenceConnections lets nothing through any more, without closing anything:
// answers only, so that statements take effect and nobody hears of it, or both
// ways. Afterwards the connections are closed.
func (m *monkey) silenceConnections(ctx context.Context) {
	kind, streams := "connections: half-open, answers lost", []string{"downstream"}
	if m.random.IntN(2) == 0 {
		kind, streams = "connections: half-open, both ways", []string{"downstream", "upstream"}
	}
	m.onLinks(kind, m.between(time.Second, 5*time.Second),
		func(link *toxiproxy.Proxy) error {
			for _, stream := range streams {
				if err := addToxic(link, "timeout", stream, map[string]int64{"timeout": 0}); err != nil {
					return err
				}
			}
			return nil
		},
		func(link *toxiproxy.Proxy) error { link.Toxics.ResetToxics(ctx); return nil })
}
