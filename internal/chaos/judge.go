package chaos

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/payonce/payonce/internal/pspsim"
)

// Verdict is what the judge says of one promise.
type Verdict struct {
	Promise string `json:"promise"`
	// Judged is in how many places it was looked for.
	Judged int `json:"judged"`
	// Broken tells where it does not hold.
	Broken []string `json:"broken,omitempty"`
}

func (v *Verdict) check(held bool, format string, args ...any) {
	v.Judged++
	if !held {
		v.Broken = append(v.Broken, fmt.Sprintf(format, args...))
	}
}

// evidence is all that the judge looks at: the providers' ledger, the
// database, the mailbox and what clients were told.
type evidence struct {
	ledger  map[string]*movements // by order
	orders  map[string]order
	refunds map[string]int64 // what the database says was given back, by order
	items   []item
	onHand  map[string][2]int64 // on hand and reserved, by sku
	mails   map[string]int      // by order, kind and reference
	notices []string            // what the mails of all succeeded refunds are called
	cases   map[string]int
	unended unended
	stories []*story
	wrong   []string
	panics  []string
}

// movements is the money of one order.
type movements struct {
	charges           int
	charged, refunded int64
	provider          string
}

type order struct {
	paid     bool
	amount   int64
	provider string // of the charge that paid it
	oversold bool
}

type item struct {
	orderID, sku string
	quantity     int64
	taken        bool
}

// judge looks at everything and counts.
func (w *world) judge(ctx context.Context) (Report, error) {
	e := &evidence{ledger: map[string]*movements{}, stories: w.diary.all(), wrong: w.diary.wrong, mails: map[string]int{}}
	ledger := w.simulator.Ledger()
	for _, entry := range ledger {
		e.move(entry)
	}
	for _, mail := range w.mailbox.Mails() {
		e.mails[mail.OrderID+" "+mail.Kind+" "+mail.Reference]++
	}
	var err error
	if e.unended, err = w.unended(ctx); err != nil {
		return Report{}, err
	}
	if err := w.database.owner(ctx, func(conn *pgx.Conn) error { return e.read(ctx, conn) }); err != nil {
		return Report{}, fmt.Errorf("read the database: %w", err)
	}
	if e.panics, err = panics(w.dir); err != nil {
		return Report{}, err
	}
	r := Report{
		Seed: w.options.Seed, Seconds: w.options.Duration.Seconds(), Servers: w.options.Servers, Clients: w.options.Clients,
		Failover: w.options.Failover, Requests: w.diary.requests, Replays: w.diary.replays, Keys: len(e.stories),
		Orders: len(e.orders), Mails: len(w.mailbox.Mails()), Statuses: map[string]int{}, Faults: w.injected.counts(),
		Cases: e.cases, Verdicts: e.verdicts(),
	}
	for status, times := range w.diary.statuses {
		r.Statuses[statusName(status)] = times
	}
	for _, entry := range ledger {
		if entry.Kind == "charge" {
			r.Charges++
		} else {
			r.Refunds++
		}
	}
	return r, nil
}

func statusName(status int) string {
	if status == 0 {
		return "no answer"
	}
	return fmt.Sprint(status)
}

func (e *evidence) move(entry pspsim.Entry) {
	m := e.ledger[entry.OutTradeNo]
	if m == nil {
		m = &movements{}
		e.ledger[entry.OutTradeNo] = m
	}
	if entry.Kind == "charge" {
		m.charges++
		m.charged += entry.Amount
		m.provider = entry.Provider
	} else {
		m.refunded += entry.Amount
	}
}

func (e *evidence) read(ctx context.Context, conn *pgx.Conn) error {
	e.orders, e.refunds, e.onHand, e.cases = map[string]order{}, map[string]int64{}, map[string][2]int64{}, map[string]int{}
	var id, text string
	var o order
	err := each(ctx, conn, `SELECT o.order_id, o.paid_charge_id IS NOT NULL, o.amount, coalesce(c.provider, ''),
       EXISTS (SELECT FROM payments.cases AS k WHERE k.order_id = o.order_id AND k.kind = 'oversold')
  FROM payments.orders AS o LEFT JOIN payments.charges AS c ON c.charge_id = o.paid_charge_id`,
		[]any{&id, &o.paid, &o.amount, &o.provider, &o.oversold}, func() { e.orders[id] = o })
	if err != nil {
		return err
	}
	var amount int64
	err = each(ctx, conn, "SELECT order_id, refund_id, amount FROM payments.refunds WHERE status = 'succeeded'",
		[]any{&id, &text, &amount}, func() {
			e.refunds[id] += amount
			e.notices = append(e.notices, id+" refund_notice "+text)
		})
	if err != nil {
		return err
	}
	var i item
	err = each(ctx, conn, "SELECT order_id, sku, quantity, stock = 'taken' FROM payments.order_items",
		[]any{&i.orderID, &i.sku, &i.quantity, &i.taken}, func() { e.items = append(e.items, i) })
	if err != nil {
		return err
	}
	var onHand, reserved int64
	err = each(ctx, conn, "SELECT sku, on_hand, reserved FROM payments.inventory",
		[]any{&id, &onHand, &reserved}, func() { e.onHand[id] = [2]int64{onHand, reserved} })
	if err != nil {
		return err
	}
	return each(ctx, conn, "SELECT kind, count(*) FROM payments.cases GROUP BY kind",
		[]any{&text, &amount}, func() { e.cases[text] = int(amount) })
}

// each scans every row of a query into the targets.
func each(ctx context.Context, conn *pgx.Conn, sql string, into []any, do func()) error {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return err //nolint:wrapcheck // judge says what it did
	}
	_, err = pgx.ForEachRow(rows, into, func() error { do(); return nil })
	return err //nolint:wrapcheck // judge says what it did
}

// panics are the lines in which a server says that it panicked.
func panics(dir string) ([]string, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "server-*.log"))
	if err != nil {
		return nil, fmt.Errorf("look for the servers' logs: %w", err)
	}
	var found []string
	for _, path := range logs {
		content, err := os.ReadFile(path) //nolint:gosec // of our own servers
		if err != nil {
			return nil, fmt.Errorf("read a server's log: %w", err)
		}
		for line := range bytes.Lines(content) {
			if bytes.Contains(line, []byte("panic")) || bytes.Contains(line, []byte("DATA RACE")) {
				found = append(found, strings.TrimSpace(string(line)))
			}
		}
	}
	return found, nil
}

func (e *evidence) verdicts() []Verdict {
	return []Verdict{
		e.oneCharge(), e.toldAndCharged(), e.sameBytes(), e.refusedStays(), e.refusedMovesNothing(), e.paidIsCharged(), e.storedStays(),
		e.stockIsExact(), e.mailsAreExact(), e.refundsFit(), e.refundsAreAsTold(), e.allEnded(), e.allLearned(), e.noSecondPayment(),
		e.onlyRightAnswers(),
	}
}

func (e *evidence) oneCharge() Verdict {
	v := Verdict{Promise: "at most one charge per order in the ledger"}
	for id, m := range e.ledger {
		v.check(m.charges <= 1, "order %s was charged %d times", id, m.charges)
	}
	return v
}

func (e *evidence) of(id string) movements {
	if m := e.ledger[id]; m != nil {
		return *m
	}
	return movements{}
}

const chargesPath, refundsPath, ordersPath = "/v1/charges", "/v1/refunds", "/v1/orders"

func (e *evidence) toldAndCharged() Verdict {
	v := Verdict{Promise: "exactly one charge where a client was told 201"}
	for _, s := range e.stories {
		if s.path == chargesPath && s.told(http.StatusCreated) {
			n := e.of(s.orderID).charges
			v.check(n == 1, "key %s was told 201, order %s has %d charges", s.key, s.orderID, n)
		}
	}
	return v
}

func (e *evidence) sameBytes() Verdict {
	v := Verdict{Promise: "every answer that ends a key has the same bytes"}
	for _, s := range e.stories {
		if len(s.final) > 0 {
			v.check(len(s.final) == 1, "key %s got %d different answers that end it", s.key, len(s.final))
		}
	}
	return v
}

func (e *evidence) refusedStays() Verdict {
	v := Verdict{Promise: "a 402 stays a 402"}
	for _, s := range e.stories {
		if s.told(http.StatusPaymentRequired) {
			v.check(!s.told(http.StatusCreated), "key %s was told 402 and 201", s.key)
		}
	}
	return v
}

func (e *evidence) refusedMovesNothing() Verdict {
	v := Verdict{Promise: "an order that was only ever refused has no charge"}
	only := map[string]bool{}
	for _, s := range e.stories {
		if s.path == chargesPath {
			before, seen := only[s.orderID]
			only[s.orderID] = (before || !seen) && s.told(http.StatusPaymentRequired)
		}
	}
	for id, refused := range only {
		if refused {
			v.check(e.of(id).charges == 0, "order %s was refused and charged", id)
		}
	}
	return v
}

func (e *evidence) paidIsCharged() Verdict {
	v := Verdict{Promise: "paid in the database if and only if charged in the ledger, by the same provider, the same amount"}
	for id, o := range e.orders {
		m := e.of(id)
		v.check(o.paid == (m.charges > 0), "order %s: paid is %t, the ledger has %d charges", id, o.paid, m.charges)
		if o.paid && m.charges == 1 {
			v.check(o.amount == m.charged && o.provider == m.provider, "order %s: %d by %s in the database, %d by %s in the ledger",
				id, o.amount, o.provider, m.charged, m.provider)
		}
	}
	for id := range e.ledger {
		_, known := e.orders[id]
		v.check(known, "order %s is in the ledger and not in the database", id)
	}
	return v
}

func (e *evidence) storedStays() Verdict {
	v := Verdict{Promise: "an order that was answered 201 is in the database"}
	for _, s := range e.stories {
		if s.path == ordersPath && s.told(http.StatusCreated) {
			_, known := e.orders[s.orderID]
			v.check(known, "order %s was stored and is gone", s.orderID)
		}
	}
	return v
}

func (e *evidence) stockIsExact() Verdict {
	v := Verdict{Promise: "stock is exact"}
	sold := map[string]int64{}
	for _, i := range e.items {
		o := e.orders[i.orderID]
		// What could not be had any more is in a case for a person.
		v.check(i.taken == (o.paid && !o.oversold), "order %s: paid is %t, %s taken is %t", i.orderID, o.paid, i.sku, i.taken)
		if i.taken {
			sold[i.sku] += i.quantity
		}
	}
	for sku, pieces := range stock {
		have := e.onHand[sku]
		v.check(have == [2]int64{pieces - sold[sku], 0}, "%s: %d on hand and %d reserved, of %d were %d sold", sku, have[0], have[1],
			pieces, sold[sku])
	}
	return v
}

func (e *evidence) mailsAreExact() Verdict {
	v := Verdict{Promise: "one confirmation per paid order and one notice per refund, nothing else"}
	left := map[string]int{}
	for mail, n := range e.mails {
		left[mail] = n
	}
	want := append([]string{}, e.notices...)
	for id, o := range e.orders {
		if o.paid {
			want = append(want, id+" order_confirmation ")
		}
	}
	for _, mail := range want {
		v.check(left[mail] == 1, "%s: sent %d times", mail, left[mail])
		delete(left, mail)
	}
	for mail, n := range left {
		v.check(false, "%s: sent %d times for nothing", mail, n)
	}
	return v
}

func (e *evidence) refundsFit() Verdict {
	v := Verdict{Promise: "refunds are within the capture and equal in ledger and database"}
	for id, m := range e.ledger {
		v.check(m.refunded <= m.charged && m.refunded == e.refunds[id], "order %s: charged %d, refunded %d, in the database %d",
			id, m.charged, m.refunded, e.refunds[id])
	}
	return v
}

func (e *evidence) refundsAreAsTold() Verdict {
	v := Verdict{Promise: "what clients were told was refunded is what was refunded"}
	told := map[string]int64{}
	for _, s := range e.stories {
		if s.path == refundsPath {
			told[s.orderID] += 0
			if s.told(http.StatusCreated) {
				told[s.orderID] += s.amount
			}
		}
	}
	for id, amount := range told {
		v.check(e.of(id).refunded == amount, "order %s: told %d, refunded %d", id, amount, e.of(id).refunded)
	}
	return v
}

func (e *evidence) allEnded() Verdict {
	v := Verdict{Promise: "no key, charge, refund or mail without an end"}
	v.check(e.unended.keys == 0, "%d keys are neither completed nor released", e.unended.keys)
	v.check(e.unended.charges == 0, "%d charges have no end", e.unended.charges)
	v.check(e.unended.refunds == 0, "%d refunds have no end", e.unended.refunds)
	v.check(e.unended.mails == 0, "%d mails are not delivered", e.unended.mails)
	return v
}

func (e *evidence) allLearned() Verdict {
	v := Verdict{Promise: "every client learned the end of every request"}
	for _, s := range e.stories {
		v.check(len(s.final) > 0 || s.refused != "", "key %s never had an end; the last answer was %s", s.key, s.last)
	}
	return v
}

func (e *evidence) noSecondPayment() Verdict {
	v := Verdict{Promise: "nothing paid twice, over another amount, or for nothing that is known"}
	for _, kind := range []string{"second_payment", "amount_mismatch", "unknown_order", "unknown_charge"} {
		v.check(e.cases[kind] == 0, "%d cases %s", e.cases[kind], kind)
	}
	return v
}

func (e *evidence) onlyRightAnswers() Verdict {
	v := Verdict{Promise: "no answer that a right request may not get; no server panicked", Judged: len(e.stories)}
	v.Broken = append(append(v.Broken, e.wrong...), e.panics...)
	return v
}
