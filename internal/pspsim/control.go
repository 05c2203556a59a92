package pspsim

import (
	"encoding/json"
	"errors"
	"maps"
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
	mux.HandleFunc("GET /requests", s.getRequests)
	mux.HandleFunc("POST /faults", s.postFaults)
	mux.HandleFunc("POST /buyer", s.postBuyer)
	mux.HandleFunc("POST /notify", s.postNotify)
}

func (s *Simulator) getLedger(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	entries := slices.DeleteFunc(s.Ledger(), func(e Entry) bool {
		return (query.Has("provider") && e.Provider != query.Get("provider")) ||
			(query.Has("out_trade_no") && e.OutTradeNo != query.Get("out_trade_no"))
	})
	writeJSON(w, http.StatusOK, entries)
}

// getRequests tells how often each operation was called, well-formed or not.
func (s *Simulator) getRequests(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	counts := maps.Clone(s.requests)
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, counts)
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
	writeJSON(w, http.StatusOK, fault)
}

// postBuyer lets the buyer of an unpaid trade pay or turn away.
func (s *Simulator) postBuyer(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Provider   string `json:"provider"`
		OutTradeNo string `json:"out_trade_no"`
		Action     string `json:"action"`
	}
	if !readJSON(w, r, &request) {
		return
	}
	s.mu.Lock()
	t, ok := s.trades[tradeKey{request.Provider, request.OutTradeNo}]
	event := ""
	switch {
	case !ok:
	case t.status == waiting && request.Action == "pay":
		s.pay(t)
		event = "paid"
	case t.status == waiting && request.Action == "cancel":
		t.status = closed
		event = "closed"
	}
	s.mu.Unlock()
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, errors.New("there is no such trade"))
	case request.Action != "pay" && request.Action != "cancel":
		refuse(w, http.StatusBadRequest, errors.New("action must be pay or cancel"))
	case event == "":
		refuse(w, http.StatusConflict, errors.New("the trade does not wait for its buyer any more"))
	default:
		s.notifyLater(t, event)
		writeJSON(w, http.StatusOK, map[string]string{"status": event})
	}
}

func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, err)
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
