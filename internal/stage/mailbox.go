package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Mail is one effect that a customer would see.
type Mail struct {
	OrderID   string `json:"order_id"`
	Kind      string `json:"kind"`
	Reference string `json:"reference"`
}

// Mailbox receives what a server's outbox delivers. It drops a delivery whose
// Idempotency-Key it knows, as docs/orders.md asks of a receiver; a delivery
// without one is a mail each time.
type Mailbox struct {
	server *http.Server
	url    string

	mu         sync.Mutex
	known      map[string]bool
	mails      []Mail
	deliveries int
	loseNext   int
}

// NewMailbox serves a mailbox on a loopback port.
func NewMailbox(ctx context.Context) (*Mailbox, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for mails: %w", err)
	}
	m := &Mailbox{url: "http://" + listener.Addr().String() + "/", known: map[string]bool{}}
	m.server = &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = m.server.Serve(listener) }()
	return m, nil
}

// Close stops serving.
func (m *Mailbox) Close() { _ = m.server.Close() }

// URL is where mails are posted to.
func (m *Mailbox) URL() string { return m.url }

// ServeHTTP takes one mail.
func (m *Mailbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var mail Mail
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&mail); err != nil {
		http.Error(w, "the body is no mail", http.StatusBadRequest)
		return
	}
	if m.take(mail, r.Header.Get("Idempotency-Key")) {
		http.Error(w, "the answer is lost", http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (m *Mailbox) take(mail Mail, id string) (lose bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deliveries++
	if id == "" || !m.known[id] {
		m.mails = append(m.mails, mail)
		m.known[id] = true
	}
	if m.loseNext == 0 {
		return false
	}
	m.loseNext--
	return true
}

// LoseAnswers takes the next mails and then answers as if it had not.
func (m *Mailbox) LoseAnswers(times int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loseNext = times
}

// Mails lists the mails that customers got, oldest first.
func (m *Mailbox) Mails() []Mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Mail{}, m.mails...)
}

// Deliveries counts all deliveries, those that were dropped included.
func (m *Mailbox) Deliveries() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deliveries
}
