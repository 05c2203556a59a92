package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
)

// exchange is one claimed request on its way to the upstream and back.
type exchange struct {
	proxy   *Proxy
	rule    *Rule
	request guard.Request
	claim   guard.Result
	fence   atomic.Int64
	w       http.ResponseWriter
	client  context.Context
	info    *httpguard.RequestInfo

	ctx   context.Context // ends at the timeout, not when the client hangs up
	stop  context.CancelCauseFunc
	timer *time.Timer
	sent  sentWatch
	// ended: the key was completed, released or abandoned, or that was tried.
	ended bool
}

// Why an exchange was ended from this side.
var (
	errTimeout = errors.New("the upstream did not answer in time")
	errHalted  = errors.New("the proxy stops")
)

// instead is an answer to write instead of the upstream's.
type instead struct {
	write func(w http.ResponseWriter)
}

func (instead) Error() string { return "another answer than the upstream's" }

// run passes the request on and ends the claim as the answer means.
func (x *exchange) run(r *http.Request, body []byte) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(x.client))
	defer stop(nil)
	x.ctx, x.stop = ctx, stop
	x.timer = time.AfterFunc(x.rule.Timeout, func() { stop(errTimeout) })
	defer x.timer.Stop()
	defer context.AfterFunc(x.proxy.halted, func() { stop(errHalted) })()
	defer x.keepLease()()
	defer x.leave()
	reverse := &httputil.ReverseProxy{
		Rewrite:        x.rewrite,
		Transport:      x.proxy.transport,
		ErrorLog:       slog.NewLogLogger(x.proxy.log.Handler(), slog.LevelWarn),
		ModifyResponse: x.answered,
		ErrorHandler:   x.failed,
	}
	noSniffing(x.w.Header())
	reverse.ServeHTTP(x.w, withBody(r.WithContext(x.sent.watch(ctx)), body))
}

// withBody gives the request its body back, in one piece. What an upgrade to
// HTTP/2 or an expectation asked for was between client and proxy.
func withBody(r *http.Request, body []byte) *http.Request {
	r.Header = r.Header.Clone()
	for _, name := range []string{"Upgrade", "Http2-Settings", "Expect"} {
		r.Header.Del(name)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	if len(r.Trailer) > 0 && len(body) > 0 {
		r.ContentLength = -1 // only a body in chunks has trailers
	}
	return r
}

func (x *exchange) rewrite(pr *httputil.ProxyRequest) {
	x.proxy.rewrite(pr)
	pr.Out.Header.Set(downstreamHeader, downstreamKey(x.request))
	if x.claim.Recovered {
		pr.Out.Header.Set(recoveredHeader, "true")
	}
}

// downstreamKey is a key for the calls that the upstream makes for this
// request: the same on every retry, another for every other scope, key or
// request. It is a UUID, since every payment provider takes one.
func downstreamKey(request guard.Request) string {
	name := digest(request.Scope, request.Key, request.Path, hex.EncodeToString(request.Hash))
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(name), 8).String()
}

// answered is told the upstream's answer before anything of it goes to the
// client, and ends the claim.
func (x *exchange) answered(response *http.Response) error {
	ownRequestID(x.w, response)
	if response.StatusCode < http.StatusOK || response.StatusCode > 599 {
		return fmt.Errorf("the upstream answered with status %d", response.StatusCode)
	}
	body, whole, err := capture(response.Body, response.ContentLength, x.rule.AnswerLimit)
	if err != nil {
		return err
	}
	switch x.rule.answerMeans(response.StatusCode, response.Header) {
	case Store:
		err = x.store(response, body, whole)
	case Release:
		x.release()
	case InDoubt:
		x.abandon()
		return instead{x.unknown(response.StatusCode == http.StatusGatewayTimeout)}
	}
	if err != nil {
		return err
	}
	putBack(response, body, whole)
	if !whole {
		// The claim has ended; from here on it is the client's download.
		x.timer.Stop()
		context.AfterFunc(x.client, func() { x.stop(x.client.Err()) })
	}
	return nil
}

// store completes the key with the answer, or with a tombstone for one that is
// too large.
func (x *exchange) store(response *http.Response, body []byte, whole bool) error {
	stored := x.rule.stored(response, body)
	if !whole {
		var err error
		if stored, err = x.rule.tombstone(response); err != nil {
			return err
		}
	}
	x.ended = true
	result, err := x.complete(stored)
	if err != nil {
		// The answer is true all the same. The key stays in doubt.
		x.log(slog.LevelError, "the answer could not be stored; the key stays in doubt", err)
		x.info.Outcome = "not_stored"
		return nil
	}
	x.info.Outcome = string(result.Outcome)
	if result.Outcome != guard.Completed {
		return instead{func(w http.ResponseWriter) { x.proxy.answerClaim(w, result) }}
	}
	return nil
}

// failed is told that there is no answer to pass on.
func (x *exchange) failed(w http.ResponseWriter, _ *http.Request, err error) {
	var other instead
	if errors.As(err, &other) {
		other.write(w)
		return
	}
	x.log(slog.LevelWarn, "upstream failed", err)
	name := cut
	late := errors.Is(context.Cause(x.ctx), errTimeout)
	switch {
	case x.sent.surelyNot(x.ctx.Err() == nil):
		name = notSent
	case late:
		name = timeout
	}
	if x.rule.breakMeans(name) == Release && !x.claim.Recovered {
		x.release()
		httpguard.RetryAfter(w, time.Second)
		httpguard.WriteProblem(w, upstreamUnavailable.Problem())
		return
	}
	x.abandon()
	x.unknown(late)(w)
}

// unknown answers the caller whose work is in doubt.
func (x *exchange) unknown(late bool) func(w http.ResponseWriter) {
	kind := outcomeUnknownBroke
	if late {
		kind = outcomeUnknownTimeout
	}
	return func(w http.ResponseWriter) {
		httpguard.RetryAfter(w, time.Second)
		httpguard.WriteProblem(w, kind.Detail(x.whatNext()))
	}
}

func (x *exchange) whatNext() string {
	if x.rule.UpstreamIdempotent {
		return "Send the request again with the same key: the service finds out what happened."
	}
	return "The same key never runs the work again until an operator has found out what happened."
}

// refuseInDoubt answers for a key whose work may have been done and must not
// be done again. The claim that told so is given back at once.
func (x *exchange) refuseInDoubt(ctx context.Context) {
	x.ctx = ctx
	x.abandon()
	httpguard.RetryAfter(x.w, resolveAfter)
	httpguard.WriteProblem(x.w, outcomeUnknown.Detail(x.whatNext()))
}

func (x *exchange) log(level slog.Level, message string, err error) {
	x.proxy.log.Log(x.ctx, level, message, "error", err)
}
