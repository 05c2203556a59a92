package pspsim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The operations that faults are armed for. Requests are counted by them, and
// by a provider's further ones, such as close.
const (
	opCharge = "charge"
	opQuery  = "query"
	opRefund = "refund"
)

// Fault is armed for the next Times calls of an operation.
type Fault struct {
	Provider string `json:"provider"`
	// Op is charge, query or refund.
	Op string `json:"op"`
	// Fault is error_before, error_after, drop_after, delay or decline.
	Fault string `json:"fault"`
	// Times is how many calls it is for; 0 is 1.
	Times int `json:"times"`
	// DelayMS is how long a delay takes, in milliseconds.
	DelayMS int `json:"delay_ms,omitempty"`
}

// The faults.
const (
	errorBefore = "error_before"
	errorAfter  = "error_after"
	dropAfter   = "drop_after"
	delay       = "delay"
	decline     = "decline"
)

const maxDelayMS = 600_000

func (s *Simulator) checkFault(f Fault) error {
	if err := s.checkProvider(f.Provider); err != nil {
		return err
	}
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
	switch {
	case f.Op == opQuery && f.Fault == decline:
		return errors.New("a query cannot be declined")
	case f.Times < 0:
		return errors.New("times must not be below 0")
	case f.DelayMS < 0 || f.DelayMS > maxDelayMS:
		return fmt.Errorf("delay_ms must be from 0 to %d", maxDelayMS)
	}
	return nil
}

func (s *Simulator) checkProvider(name string) error {
	if _, ok := s.providers[name]; ok {
		return nil
	}
	return fmt.Errorf("provider is %q; it may be one of %q", name, slices.Sorted(maps.Keys(s.providers)))
}

// Arm makes the next calls of an operation fail, or says what is wrong with
// the fault. Faults for one operation follow each other as they were armed.
func (s *Simulator) Arm(fault Fault) error {
	if err := s.checkFault(fault); err != nil {
		return err
	}
	fault.Times = max(1, fault.Times)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault)
	return nil
}

// Disarm takes back every fault that no call has met yet.
func (s *Simulator) Disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// takeFault takes the fault that is armed for a call, if any.
func (s *Simulator) takeFault(provider, op string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, fault := range s.faults {
		if fault.Provider != provider || fault.Op != op {
			continue
		}
		fault.Times--
		if fault.Times == 0 {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
		return *fault
	}
	return Fault{}
}

// Requests tells how often each operation was called, well-formed or not, by
// provider and operation: alipay/charge.
func (s *Simulator) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

func (s *Simulator) count(provider, op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[provider+"/"+op]++
}

// call is one authentic request.
type call struct {
	provider, op string
	// systemError and refused write the provider's own answers to a failure
	// of its own and to a call that it refuses for good.
	systemError, refused func() answer
	// do does the work and moves the money, under the simulator's lock.
	do func() answer
}

// perform runs a call under the fault that is armed for it. With cut, the
// connection is to be cut instead of answering.
func (s *Simulator) perform(c call) (a answer, cut bool) {
	fault := s.takeFault(c.provider, c.op)
	switch fault.Fault {
	case delay:
		s.wait(time.Duration(fault.DelayMS) * time.Millisecond)
	case errorBefore:
		return c.systemError(), false
	case decline:
		return c.refused(), false
	}
	a = s.locked(c.do)
	switch fault.Fault {
	case errorAfter:
		return c.systemError(), false
	case dropAfter:
		return a, true
	}
	return a, false
}

func (s *Simulator) locked(do func() answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return do()
}
