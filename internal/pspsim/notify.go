package pspsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// acknowledgement is how the server answered one notification.
type acknowledgement struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Body        string `json:"body"`
	Error       string `json:"error,omitempty"`
}

// message is one notification, ready to be sent any number of times.
type message struct {
	url         string
	contentType string
	body        string
	accepted    func(acknowledgement) bool
}

// postNotify sends signed notifications now and tells how they were answered.
// It moves no money: it repeats, delays and reorders messages.
func (s *Simulator) postNotify(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Provider   string `json:"provider"`
		OutTradeNo string `json:"out_trade_no"`
		Event      string `json:"event"`
		Times      int    `json:"times"`
		Parallel   bool   `json:"parallel"`
	}
	if !readJSON(w, r, &request) {
		return
	}
	s.mu.Lock()
	t, ok := s.trades[tradeKey{request.Provider, request.OutTradeNo}]
	s.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, errors.New("there is no such trade"))
		return
	}
	message, err := s.message(t, request.Event)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	answers := make([]acknowledgement, max(1, request.Times))
	var sent sync.WaitGroup
	for i := range answers {
		if !request.Parallel {
			answers[i] = s.deliver(r.Context(), message)
			continue
		}
		sent.Go(func() { answers[i] = s.deliver(r.Context(), message) })
	}
	sent.Wait()
	writeJSON(w, http.StatusOK, map[string]any{"acknowledgements": answers})
}

// notifyLater sends a notification in the background, again after a growing
// wait until it is acknowledged, as providers do, though not for days.
func (s *Simulator) notifyLater(t *trade, event string) {
	message, err := s.message(t, event)
	if err != nil || message.url == "" {
		return
	}
	s.pending.Go(func() {
		wait := 200 * time.Millisecond
		for range 8 {
			if answer := s.deliver(s.stopped, message); message.accepted(answer) {
				return
			}
			select {
			case <-s.stopped.Done():
				return
			case <-time.After(wait):
			}
			wait *= 2
		}
	})
}

// message builds the notification of an event in its provider's own terms.
func (s *Simulator) message(t *trade, event string) (message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t.provider {
	case alipay:
		return s.alipayMessage(t, event)
	default:
		return message{}, fmt.Errorf("provider %q sends no notifications", t.provider)
	}
}

// target is where a provider's notifications go: where the request said, or
// the configured server.
func (s *Simulator) target(t *trade) string {
	if t.notifyURL != "" || s.options.NotifyURL == "" {
		return t.notifyURL
	}
	return strings.TrimSuffix(s.options.NotifyURL, "/") + "/webhooks/" + t.provider
}

func (s *Simulator) deliver(ctx context.Context, m message) acknowledgement {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, strings.NewReader(m.body))
	if err != nil {
		return acknowledgement{Error: err.Error()}
	}
	request.Header.Set("Content-Type", m.contentType)
	response, err := s.client.Do(request)
	if err != nil {
		return acknowledgement{Error: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	answer := acknowledgement{
		Status: response.StatusCode, ContentType: response.Header.Get("Content-Type"), Body: string(body),
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}
