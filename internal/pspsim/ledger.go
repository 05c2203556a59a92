package pspsim

import (
	"fmt"
	"slices"
	"time"
)

// Entry is one movement of money.
type Entry struct {
	Provider   string `json:"provider"`
	OutTradeNo string `json:"out_trade_no"`
	// Kind is charge or refund.
	Kind string `json:"kind"`
	// Amount is in minor units of Currency, an ISO 4217 code.
	Amount   int64     `json:"amount"`
	Currency string    `json:"currency"`
	At       time.Time `json:"at"`
}

// tradeKey names a trade by the number that is unique at the provider.
type tradeKey struct{ provider, number string }

type tradeStatus int

const (
	waiting tradeStatus = iota
	paid
	closed
)

// trade is an order as the provider has it.
type trade struct {
	tradeKey
	outTradeNo string // the merchant's number
	tradeNo    string // the provider's number
	amount     int64
	currency   string
	terms      string // what a duplicate has to repeat
	subject    string
	notifyURL  string
	method     string // how the buyer pays, in the provider's words
	attach     string // what the merchant gets back in notifications
	payer      string // who the request says will pay
	status     tradeStatus
	createdAt  time.Time
	paidAt     time.Time
	closedAt   time.Time
	refunds    []refund // in the order in which they were made
}

// refund is one refund of a trade.
type refund struct {
	number    string // the merchant's, unique within the trade
	ownNumber string // the provider's
	amount    int64
	total     int64 // refunded in all, this refund included
	notifyURL string
	at        time.Time
}

// refunded is what was given back so far.
func (t *trade) refunded() int64 {
	if len(t.refunds) == 0 {
		return 0
	}
	return t.refunds[len(t.refunds)-1].total
}

func (t *trade) findRefund(number string) (refund, bool) {
	i := slices.IndexFunc(t.refunds, func(r refund) bool { return r.number == number })
	if i < 0 {
		return refund{}, false
	}
	return t.refunds[i], true
}

// Ledger lists every movement of money so far, oldest first.
func (s *Simulator) Ledger() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Entry{}, s.ledger...)
}

// open records a new trade. The caller holds mu.
func (s *Simulator) open(t *trade) {
	t.createdAt = time.Now()
	s.trades = append(s.trades, t)
	s.byNumber[t.tradeKey] = t
}

// find is the newest trade of a merchant's number; the one whose money moved
// goes first. The caller holds mu.
func (s *Simulator) find(provider, outTradeNo string) *trade {
	var found *trade
	for _, t := range slices.Backward(s.trades) {
		if t.provider != provider || t.outTradeNo != outTradeNo {
			continue
		}
		if t.status == paid {
			return t
		}
		if found == nil {
			found = t
		}
	}
	return found
}

// nextNumber makes numbers of trades and refunds. The caller holds mu.
func (s *Simulator) nextNumber() string {
	s.number++
	return fmt.Sprintf("%s%014d", time.Now().UTC().Format("20060102150405"), s.number)
}

// pay moves the buyer's money. The caller holds mu.
func (s *Simulator) pay(t *trade) {
	t.status, t.paidAt = paid, time.Now()
	s.record(t, "charge", t.amount, t.paidAt)
}

// payUnlessManual is the buyer who pays at once. The caller holds mu.
func (s *Simulator) payUnlessManual(t *trade) {
	if s.options.ManualBuyer || t.status != waiting {
		return
	}
	s.pay(t)
	s.announce(t, event{kind: eventPaid})
}

// turnAway ends a trade that was never paid. The caller holds mu.
func (s *Simulator) turnAway(t *trade) {
	t.status, t.closedAt = closed, time.Now()
}

// giveBack moves money back to the buyer. The caller holds mu and has checked
// the amount.
func (s *Simulator) giveBack(t *trade, r refund) refund {
	r.at, r.total = time.Now(), t.refunded()+r.amount
	t.refunds = append(t.refunds, r)
	s.record(t, "refund", r.amount, r.at)
	return r
}

func (s *Simulator) record(t *trade, kind string, amount int64, at time.Time) {
	s.ledger = append(s.ledger, Entry{
		Provider: t.provider, OutTradeNo: t.outTradeNo, Kind: kind, Amount: amount, Currency: t.currency, At: at.UTC(),
	})
}
