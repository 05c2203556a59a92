package pspsim

import (
	"fmt"
	"time"
)

// The operations that faults are armed for and requests are counted by.
const (
	opCharge = "charge"
	opQuery  = "query"
	opRefund = "refund"
)

// Entry is one movement of money.
type Entry struct {
	Provider   string    `json:"provider"`
	OutTradeNo string    `json:"out_trade_no"`
	Kind       string    `json:"kind"` // charge or refund
	Amount     int64     `json:"amount"`
	Currency   string    `json:"currency"`
	At         time.Time `json:"at"`
}

type tradeKey struct{ provider, outTradeNo string }

type tradeStatus int

const (
	waiting tradeStatus = iota
	paid
	closed
)

// trade is an order as the provider has it.
type trade struct {
	tradeKey
	tradeNo     string
	amount      int64
	currency    string
	fingerprint string // what a duplicate has to repeat
	subject     string
	notifyURL   string
	status      tradeStatus
	createdAt   time.Time
	paidAt      time.Time
	refunds     map[string]int64 // amount by refund number
}

func (t *trade) refunded() int64 {
	var sum int64
	for _, amount := range t.refunds {
		sum += amount
	}
	return sum
}

// Fault is armed for the next Times calls of an operation.
type Fault struct {
	Provider string `json:"provider"`
	Op       string `json:"op"`
	Fault    string `json:"fault"`
	Times    int    `json:"times"`
	DelayMS  int    `json:"delay_ms"`
}

// The faults.
const (
	errorBefore = "error_before"
	errorAfter  = "error_after"
	dropAfter   = "drop_after"
	delay       = "delay"
	decline     = "decline"
)

func (f Fault) check() error {
	switch f.Op {
	case opCharge, opQuery, opRefund:
	default:
		return fmt.Errorf("op is %q; it may be charge, query or refund", f.Op)
	}
	switch f.Fault {
	case errorBefore, errorAfter, dropAfter, delay, decline:
	default:
		return fmt.Errorf("fault is %q; it may be error_before, error_after, drop_after, delay or decline", f.Fault)
	}
	if f.Op == opQuery && f.Fault == decline {
		return fmt.Errorf("a query cannot be declined")
	}
	if f.Provider != "alipay" {
		return fmt.Errorf("provider is %q; it may be alipay", f.Provider)
	}
	if f.Times < 0 || f.DelayMS < 0 {
		return fmt.Errorf("times and delay_ms must not be below 0")
	}
	return nil
}

// Arm makes the next calls of an operation fail.
func (s *Simulator) Arm(fault Fault) error {
	if err := fault.check(); err != nil {
		return err
	}
	if fault.Times == 0 {
		fault.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault)
	return nil
}

// called counts a request and takes the fault that is armed for it, if any.
func (s *Simulator) called(provider, op string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[provider+"/"+op]++
	for i, fault := range s.faults {
		if fault.Provider != provider || fault.Op != op {
			continue
		}
		fault.Times--
		if fault.Times == 0 {
			s.faults = append(s.faults[:i], s.faults[i+1:]...)
		}
		return *fault
	}
	return Fault{}
}

// Ledger lists every movement of money so far.
func (s *Simulator) Ledger() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Entry{}, s.ledger...)
}

// nextNumber makes numbers of trades and notifications. The caller holds mu.
func (s *Simulator) nextNumber() string {
	s.number++
	return fmt.Sprintf("%s%012d", time.Now().UTC().Format("20060102150405"), s.number)
}

// pay moves the buyer's money. The caller holds mu.
func (s *Simulator) pay(t *trade) {
	t.status, t.paidAt = paid, time.Now()
	s.ledger = append(s.ledger, Entry{
		Provider: t.provider, OutTradeNo: t.outTradeNo, Kind: "charge", Amount: t.amount, Currency: t.currency,
		At: t.paidAt.UTC(),
	})
}

// giveBack moves money back to the buyer. The caller holds mu.
func (s *Simulator) giveBack(t *trade, refundID string, amount int64) {
	t.refunds[refundID] = amount
	s.ledger = append(s.ledger, Entry{
		Provider: t.provider, OutTradeNo: t.outTradeNo, Kind: "refund", Amount: amount, Currency: t.currency,
		At: time.Now().UTC(),
	})
}
