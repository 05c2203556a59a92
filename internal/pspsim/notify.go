package pspsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The events that notifications tell. Not every provider has every one.
const (
	eventWaiting       = "waiting"
	eventPaid          = "paid"
	eventFinished      = "finished"
	eventFailed        = "failed"
	eventClosed        = "closed"
	eventRefundPartial = "refund_partial"
	eventRefundFull    = "refund_full"
)

// event is what one notification tells of a trade.
type event struct {
	kind   string
	refund refund // of refund events
}

// message is one notification, ready to be sent any number of times.
type message struct {
	url  string
	body string
	// header is called for each delivery: some providers sign the time of it.
	header func() (http.Header, error)
	// accepted tells whether the provider stops sending after this answer.
	accepted func(acknowledgement) bool
}

// acknowledgement is how the server answered one notification.
type acknowledgement struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Body        string `json:"body"`
	Error       string `json:"error,omitempty"`
}

// Notifications are sent again after a growing wait, as providers do, though
// not for days: 8 times within a minute.
const (
	deliveries      = 8
	firstWait       = 200 * time.Millisecond
	deliveryTimeout = 10 * time.Second
	maxNotifyTimes  = 1000
	maxAnswerBytes  = 64 << 10
)

// newNotifier makes the client that sends notifications. Providers follow no
// redirects.
func newNotifier() *http.Client {
	return &http.Client{
		Timeout:       deliveryTimeout,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var (
	errNoTrade = errors.New("there is no such trade")
	errNoEvent = errors.New("sends no notification for the event")
)

func noEvent(provider, kind string) error {
	return fmt.Errorf("%s %w %s", provider, errNoEvent, kind)
}

// notifyRequest is the body of POST /notify.
type notifyRequest struct {
	Provider   string `json:"provider"`
	OutTradeNo string `json:"out_trade_no"`
	Event      string `json:"event"`
	Times      int    `json:"times"`
	Parallel   bool   `json:"parallel"`
}

// postNotify sends signed notifications now and tells how they were answered.
// It moves no money: it repeats, delays and reorders messages.
func (s *Simulator) postNotify(w http.ResponseWriter, r *http.Request) {
	var request notifyRequest
	if !readJSON(w, r, &request) {
		return
	}
	if request.Times < 0 || request.Times > maxNotifyTimes {
		refuse(w, http.StatusBadRequest, fmt.Errorf("times must be from 1 to %d", maxNotifyTimes))
		return
	}
	if err := s.checkProvider(request.Provider); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	m, err := s.requestedMessage(request)
	switch {
	case errors.Is(err, errNoTrade):
		refuse(w, http.StatusNotFound, err)
	case err != nil:
		refuse(w, http.StatusBadRequest, err)
	default:
		writeJSON(w, http.StatusOK, map[string]any{"acknowledgements": s.deliverTimes(r.Context(), m, request)})
	}
}

func (s *Simulator) requestedMessage(request notifyRequest) (message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.find(request.Provider, request.OutTradeNo)
	if t == nil {
		return message{}, errNoTrade
	}
	e, err := requestedEvent(t, request.Event)
	if err != nil {
		return message{}, err
	}
	m, err := s.providers[t.provider].message(t, e)
	if err == nil && m.url == "" {
		return message{}, errors.New("there is no address to notify: start the simulator with --notify-url, or charge with a notify_url")
	}
	return m, err
}

// requestedEvent is an event as somebody asks for it. What it tells follows
// from the trade alone, so that asking again repeats it. Its refund is no real
// one: half of the amount, or all of it.
func requestedEvent(t *trade, kind string) (event, error) {
	invent := func(amount int64) event {
		number := t.outTradeNo + "-" + kind
		return event{kind: kind, refund: refund{
			number: number, ownNumber: inventedNumber(t.tradeNo, kind), amount: amount, total: amount, at: t.createdAt,
			notifyURL: t.notifyURL,
		}}
	}
	switch kind {
	case eventWaiting, eventPaid, eventFinished, eventFailed, eventClosed:
		return event{kind: kind}, nil
	case eventRefundPartial:
		if t.amount < 2 {
			return event{}, errors.New("an amount of one minor unit has no part to refund")
		}
		return invent(t.amount / 2), nil
	case eventRefundFull:
		return invent(t.amount), nil
	default:
		return event{}, fmt.Errorf("event is %q; it may be waiting, paid, finished, failed, closed, refund_partial or refund_full", kind)
	}
}

// inventedNumber is a number of 28 digits that follows from the parts.
func inventedNumber(parts ...string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' {
			return r - 'a' + '0'
		}
		return r
	}, fingerprint(parts...)[:28])
}

func (s *Simulator) deliverTimes(ctx context.Context, m message, request notifyRequest) []acknowledgement {
	answers := make([]acknowledgement, max(1, request.Times))
	var sent sync.WaitGroup
	for i := range answers {
		if !request.Parallel {
			answers[i] = s.deliver(ctx, m)
			continue
		}
		sent.Go(func() { answers[i] = s.deliver(ctx, m) })
	}
	sent.Wait()
	return answers
}

// refundEvent is the event of a refund that was made.
func refundEvent(t *trade, r refund) event {
	if r.total < t.amount {
		return event{kind: eventRefundPartial, refund: r}
	}
	return event{kind: eventRefundFull, refund: r}
}

// announce sends the notification of an event in the background until it is
// acknowledged, if the provider has one. The caller holds mu.
func (s *Simulator) announce(t *trade, e event) {
	if s.options.Quiet {
		return
	}
	m, err := s.providers[t.provider].message(t, e)
	log := s.options.Logger.With("provider", t.provider, "out_trade_no", t.outTradeNo, "event", e.kind)
	switch {
	case errors.Is(err, errNoEvent):
	case err != nil:
		log.Error("the notification could not be written", "error", err)
	case m.url != "" && s.stopped.Err() == nil:
		s.pending.Go(func() { s.deliverUntilAccepted(m, log) })
	}
}

func (s *Simulator) deliverUntilAccepted(m message, log *slog.Logger) {
	wait := firstWait
	var answer acknowledgement
	for range deliveries {
		answer = s.deliver(s.stopped, m)
		if answer.Error == "" && m.accepted(answer) {
			return
		}
		s.wait(wait)
		if s.stopped.Err() != nil {
			return
		}
		wait *= 2
	}
	log.Warn("nobody acknowledged the notification", "status", answer.Status, "error", answer.Error)
}

// target is where a provider's notifications go: where the request said, or
// the configured server.
func (s *Simulator) target(provider, requested string) string {
	if requested != "" || s.options.NotifyURL == "" {
		return requested
	}
	return strings.TrimSuffix(s.options.NotifyURL, "/") + "/webhooks/" + provider
}

func (s *Simulator) deliver(ctx context.Context, m message) acknowledgement {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, strings.NewReader(m.body))
	if err != nil {
		return acknowledgement{Error: err.Error()}
	}
	request.Header, err = m.header()
	if err != nil {
		return acknowledgement{Error: err.Error()}
	}
	response, err := s.client.Do(request)
	if err != nil {
		return acknowledgement{Error: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	answer := acknowledgement{
		Status: response.StatusCode, ContentType: response.Header.Get("Content-Type"), Body: string(body),
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}
