package pspsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// control is the interface that tests and demonstrations drive the simulator
// by; no provider has it.
func (s *Simulator) control(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /ledger", s.getLedger)
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Requests())
	})
	mux.HandleFunc("POST /faults", s.postFaults)
	mux.HandleFunc("POST /buyer", s.postBuyer)
	mux.HandleFunc("POST /notify", s.postNotify)
}

// getLedger lists the ledger, or what of it has the given provider and
// out_trade_no.
func (s *Simulator) getLedger(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	entries := slices.DeleteFunc(s.Ledger(), func(e Entry) bool {
		return (query.Has("provider") && e.Provider != query.Get("provider")) ||
			(query.Has("out_trade_no") && e.OutTradeNo != query.Get("out_trade_no"))
	})
	writeJSON(w, http.StatusOK, entries)
}

func (s *Simulator) postFaults(w http.ResponseWriter, r *http.Request) {
	var fault Fault
	if !readJSON(w, r, &fault) {
		return
	}
	if err := s.Arm(fault); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	fault.Times = max(1, fault.Times)
	writeJSON(w, http.StatusOK, fault)
}

// buyerRequest is the body of POST /buyer.
type buyerRequest struct {
	Provider   string `json:"provider"`
	OutTradeNo string `json:"out_trade_no"`
	Action     string `json:"action"`
}

// The actions of a buyer, and the event that each brings about.
var buyerEvents = map[string]string{"pay": eventPaid, "cancel": eventClosed}

// postBuyer lets the buyer of an unpaid trade pay or turn away.
func (s *Simulator) postBuyer(w http.ResponseWriter, r *http.Request) {
	var request buyerRequest
	if !readJSON(w, r, &request) {
		return
	}
	if err := s.checkProvider(request.Provider); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	kind, ok := buyerEvents[request.Action]
	if !ok {
		refuse(w, http.StatusBadRequest, fmt.Errorf("action is %q; it may be pay or cancel", request.Action))
		return
	}
	switch err := s.act(request); {
	case errors.Is(err, errNoTrade):
		refuse(w, http.StatusNotFound, err)
	case err != nil:
		refuse(w, http.StatusConflict, err)
	default:
		writeJSON(w, http.StatusOK, map[string]string{"status": kind})
	}
}

func (s *Simulator) act(request buyerRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.find(request.Provider, request.OutTradeNo)
	switch {
	case t == nil:
		return errNoTrade
	case t.status != waiting:
		return errors.New("the trade does not wait for its buyer any more")
	case request.Action == "pay":
		s.pay(t)
	default:
		s.turnAway(t)
	}
	s.announce(t, event{kind: buyerEvents[request.Action]})
	return nil
}

const maxControlBytes = 1 << 20

func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBytes))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, after := decoder.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("something follows the JSON object")
		}
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("the body is not the JSON that is wanted: %w", err))
		return false
	}
	return true
}

func refuse(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, map[string]string{"error": err.Error()})
}

func writeJSON(w http.ResponseWriter, status int, payload any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(payload)
}
