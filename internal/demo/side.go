package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/internal/freeport"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/stage"
)

// side is one of the two servers that are compared.
type side struct {
	name    string
	command []string
	// ordersSQL reads number at the provider, customer's number, paid or not.
	ordersSQL string
	stockSQL  string
}

var (
	unguardedSide = side{
		name: "without the guard", command: []string{"unguarded"},
		ordersSQL: "SELECT order_id, reference, status = 'paid' FROM unguarded.orders",
		stockSQL:  "SELECT on_hand FROM unguarded.inventory WHERE sku = $1",
	}
	guardedSide = side{
		name: "with the guard",
		// The shortest lease that a server takes: a killed charge is free to be
		// asked about when it is over.
		command:   []string{"serve", "--lease", "12s", "--provider-deadline", "2s"},
		ordersSQL: "SELECT order_id, order_id, status = 'paid' FROM payments.orders",
		stockSQL:  "SELECT on_hand FROM payments.inventory WHERE sku = $1",
	}
)

const (
	apiKey = "sk_demo"
	sku    = "tea"
	stock  = 1000

	// midCharge is how long a charge takes during which the server is killed.
	midCharge = 700 * time.Millisecond
	// calmFor is how long nothing may change before a side is judged, and
	// settleWithin how long the guarded side may take to get everything right.
	calmFor      = 2 * time.Second
	settleWithin = 30 * time.Second
)

// performance is one side with everything around it.
type performance struct {
	side
	*Demo
	simulator *stage.Simulator
	mailbox   *stage.Mailbox
	server    *stage.Server
	client    *http.Client
	customers []*customer
}

// perform lets all customers buy from one side.
func (d *Demo) perform(ctx context.Context, s side, purchases []purchase) (Tally, error) {
	p := performance{side: s, Demo: d, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	if err := p.open(ctx); err != nil {
		return Tally{}, errors.Join(err, p.close())
	}
	tally, err := p.play(ctx, purchases)
	return tally, errors.Join(err, p.close())
}

func (p *performance) open(ctx context.Context) error {
	address, err := freeport.Address(ctx)
	if err != nil {
		return err
	}
	if p.simulator, err = stage.NewSimulator(ctx, p.keys, "http://"+address); err != nil {
		return err
	}
	if p.mailbox, err = stage.NewMailbox(ctx); err != nil {
		return err
	}
	p.server, err = stage.NewServer(ctx, stage.ServerOptions{
		Binary: p.options.Binary, Args: p.command, Address: address, Dir: p.dir, Name: p.command[0],
		Environment: append(p.simulator.Environment("http://"+address),
			"PAYONCE_DATABASE_URL="+p.databaseURL, "PAYONCE_OUTBOX_URL="+p.mailbox.URL()),
	})
	if err != nil {
		return err
	}
	return p.server.Start(ctx)
}

func (p *performance) close() error {
	var err error
	if p.server != nil {
		err = p.server.Stop()
	}
	if p.mailbox != nil {
		p.mailbox.Close()
	}
	if p.simulator != nil {
		p.simulator.Close()
	}
	return err
}

func (p *performance) play(ctx context.Context, purchases []purchase) (Tally, error) {
	p.say("\n%s\n", p.name)
	for _, bought := range purchases {
		c := &customer{purchase: bought, server: p.server.URL(), client: p.client}
		p.customers = append(p.customers, c)
		if err := c.order(ctx); err != nil {
			return Tally{}, err
		}
	}
	struck := len(purchases) - cast[serverKilled]
	for i, c := range p.customers[:struck] {
		if err := p.strike(ctx, c); err != nil {
			return Tally{}, err
		}
		if err := p.show(ctx, i); err != nil {
			return Tally{}, err
		}
	}
	if err := p.killMidCharge(ctx, p.customers[struck:]); err != nil {
		return Tally{}, err
	}
	for i := range p.customers[struck:] {
		if err := p.show(ctx, struck+i); err != nil {
			return Tally{}, err
		}
	}
	return p.settle(ctx)
}

// strike lets a customer pay while their trouble happens.
func (p *performance) strike(ctx context.Context, c *customer) error {
	switch c.trouble {
	case calm:
	case doubleClick:
		// The provider takes a moment, so that both clicks are under way.
		if err := p.arm(c.provider, pspsim.Fault{Op: "charge", Fault: "delay", DelayMS: 200}); err != nil {
			return err
		}
		return together([]*customer{c, c}, func(c *customer) error { return c.pay(ctx) })
	case answerLost:
		err := errors.Join(p.arm(c.provider, pspsim.Fault{Op: "charge", Fault: "drop_after"}),
			p.arm(c.provider, pspsim.Fault{Op: "query", Fault: "drop_after"}))
		if err != nil {
			return err
		}
	case errorBefore:
		if err := p.arm(c.provider, pspsim.Fault{Op: "charge", Fault: "error_before"}); err != nil {
			return err
		}
	case errorAfter:
		if err := p.arm(c.provider, pspsim.Fault{Op: "charge", Fault: "error_after"}); err != nil {
			return err
		}
	case repeatedNotification, lateNotification:
		if err := c.pay(ctx); err != nil {
			return err
		}
		return p.notifyAgain(ctx, c)
	case serverKilled: // by killMidCharge, for all of them at once
	}
	return c.pay(ctx)
}

func (p *performance) arm(provider string, fault pspsim.Fault) error {
	fault.Provider = provider
	return p.simulator.Arm(fault)
}

func together(customers []*customer, do func(*customer) error) error {
	errs := make([]error, len(customers))
	var running sync.WaitGroup
	for i, c := range customers {
		running.Go(func() { errs[i] = do(c) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// notifyAgain repeats the notification of a payment, or sends an older one
// after it.
func (p *performance) notifyAgain(ctx context.Context, c *customer) error {
	number, err := p.awaitPayment(ctx, c)
	if err != nil {
		return err
	}
	if c.trouble == repeatedNotification {
		return p.simulator.Notify(ctx, c.provider, number, "paid", 3)
	}
	return p.simulator.Notify(ctx, c.provider, number, "closed", 1)
}

// awaitPayment waits until the order is paid, and finds its number at the
// provider.
func (p *performance) awaitPayment(ctx context.Context, c *customer) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for {
		var number *string
		err := p.db.QueryRow(ctx, "SELECT min(number) FROM ("+p.ordersSQL+
			") AS o (number, reference, paid) WHERE o.reference = $1 AND o.paid", c.orderID).Scan(&number)
		if err != nil {
			return "", fmt.Errorf("wait until order %s is paid: %w", c.orderID, err)
		}
		if number != nil {
			return *number, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// killMidCharge kills the server while the providers work on the customers'
// charges, and starts it again. The customers keep trying.
func (p *performance) killMidCharge(ctx context.Context, customers []*customer) error {
	for _, c := range customers {
		if err := p.arm(c.provider, pspsim.Fault{Op: "charge", Fault: "delay", DelayMS: int(midCharge.Milliseconds())}); err != nil {
			return err
		}
	}
	p.say("  the server is killed with -9 while it charges the last %d; they keep trying\n", len(customers))
	reached := p.chargesAsked() + len(customers)
	paid := make(chan error, 1)
	go func() { paid <- together(customers, func(c *customer) error { return c.pay(ctx) }) }()
	for p.chargesAsked() < reached {
		select {
		case err := <-paid:
			return errors.Join(err, errors.New("the last customers' charges ended before the server could be killed"))
		case <-time.After(5 * time.Millisecond):
		}
	}
	p.server.Kill()
	if err := p.server.Start(ctx); err != nil {
		return errors.Join(err, <-paid)
	}
	if err := <-paid; err != nil {
		return err
	}
	time.Sleep(midCharge) // the providers' own work is done then
	return nil
}

// chargesAsked counts the calls of the providers that move money.
func (p *performance) chargesAsked() int {
	n := 0
	for operation, times := range p.simulator.Requests() {
		if strings.HasSuffix(operation, "/charge") {
			n += times
		}
	}
	return n
}

// show tells how one customer fared so far.
func (p *performance) show(ctx context.Context, i int) error {
	c := p.customers[i]
	charged, err := p.charges(ctx, c.orderID)
	if err != nil {
		return err
	}
	note := ""
	if charged > 1 {
		note = fmt.Sprintf("  CHARGED %d TIMES", charged)
	}
	p.say("  %2d/%d  %-6s  %-36s  %d after %d %s%s\n", i+1, len(p.customers), c.provider, c.trouble, c.told, c.requests,
		plural(c.requests, "request"), note)
	return nil
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// charges counts the movements of money for an order of a customer.
func (p *performance) charges(ctx context.Context, reference string) (int, error) {
	var numbers []string
	err := p.db.QueryRow(ctx, "SELECT coalesce(array_agg(number), '{}') FROM ("+p.ordersSQL+
		") AS o (number, reference, paid) WHERE o.reference = $1", reference).Scan(&numbers)
	if err != nil {
		return 0, fmt.Errorf("read the orders of customer %s: %w", reference, err)
	}
	charges := 0
	for _, entry := range p.simulator.Ledger() {
		for _, number := range numbers {
			if entry.OutTradeNo == number {
				charges++
			}
		}
	}
	return charges, nil
}

// settle waits for the notifications and mails that are under way, until
// nothing changes any more, and counts.
func (p *performance) settle(ctx context.Context) (Tally, error) {
	p.say("  waiting for the last notifications and mails\n")
	started, since := time.Now(), time.Now()
	var last Tally
	for {
		tally, err := count(ctx, account{
			side: p.side, db: p.db, ledger: p.simulator.Ledger(), mails: p.mailbox.Mails(), customers: p.customers,
		})
		if err != nil {
			return Tally{}, err
		}
		if tally != last {
			last, since = tally, time.Now()
		}
		// A double charge does not go away.
		expected := p.name != guardedSide.name || len(tally.Broken()) == 0 || tally.DoubleCharges > 0
		if time.Since(since) > calmFor && (expected || time.Since(started) > settleWithin) {
			return tally, nil
		}
		select {
		case <-ctx.Done():
			return Tally{}, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// prepare makes both sides' tables, stock and api key.
func prepare(ctx context.Context, db *pgxpool.Pool) error {
	for _, sql := range []string{
		"SELECT payments.set_stock($1, $2)", "INSERT INTO unguarded.inventory (sku, on_hand) VALUES ($1, $2)",
	} {
		if _, err := db.Exec(ctx, sql, sku, stock); err != nil {
			return fmt.Errorf("stock the shops: %w", err)
		}
	}
	return nil
}
