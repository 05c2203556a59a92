package proxy

import (
	"net/http"

	"github.com/payonce/payonce/internal/httpguard"
)

// The problems that only the proxy answers with.
var (
	scopeMissing        = httpguard.NewKind("scope_missing", http.StatusBadRequest, "The request does not tell whose key it has", httpguard.RetryChanged)
	streamRefused       = httpguard.NewKind("stream_refused", http.StatusBadRequest, "A guarded path takes no upgrade, event stream or gRPC call", httpguard.RetryNever)
	upstreamUnavailable = httpguard.NewKind("upstream_unavailable", http.StatusServiceUnavailable, "The service cannot be reached, so nothing was done", httpguard.RetrySameKey)
	upstreamBroke       = httpguard.NewKind("upstream_broke", http.StatusBadGateway, "The service did not answer to the end", httpguard.RetryNever)
	// The first caller is told with the status that fits, each later one with 409.
	outcomeUnknownBroke   = httpguard.NewKind(codeOutcomeUnknown, http.StatusBadGateway, titleOutcomeUnknown, httpguard.RetrySameKey)
	outcomeUnknownTimeout = httpguard.NewKind(codeOutcomeUnknown, http.StatusGatewayTimeout, titleOutcomeUnknown, httpguard.RetrySameKey)
	outcomeUnknown        = httpguard.NewKind(codeOutcomeUnknown, http.StatusConflict, titleOutcomeUnknown, httpguard.RetrySameKey)
	answerNotStored       = httpguard.NewKind("answer_not_stored", http.StatusConflict, "The work was done; its answer was too large to be stored", httpguard.RetryNever)
)

const (
	codeOutcomeUnknown  = "outcome_unknown"
	titleOutcomeUnknown = "Whether the work was done is not known"
)

// Kinds lists the problems of this package.
func Kinds() []httpguard.Kind {
	return []httpguard.Kind{
		scopeMissing, streamRefused, upstreamUnavailable, upstreamBroke, outcomeUnknownBroke, outcomeUnknownTimeout,
		outcomeUnknown, answerNotStored,
	}
}
