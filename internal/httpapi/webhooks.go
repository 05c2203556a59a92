package httpapi

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/psp"
)

// maxNotification bounds the body of a notification, in bytes.
const maxNotification = 256 << 10

// postWebhook is POST /webhooks/{provider}. The provider gets its
// acknowledgement only when the notification took effect, or had done so
// before; in every other case it sends it again.
func (api *API) postWebhook(w http.ResponseWriter, r *http.Request) {
	name := mux.Vars(r)["provider"]
	provider, ok := api.payments.Provider(name)
	if !ok {
		httpguard.WriteProblem(w, httpguard.NotFound.Problem())
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxNotification))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		httpguard.WriteProblem(w, httpguard.BodyTooLarge.Problem())
		return
	}
	if err != nil {
		httpguard.WriteProblem(w, httpguard.BodyMalformed.Detail("The body could not be read to its end."))
		return
	}
	info := httpguard.InfoOf(r.Context())
	info.Outcome = notificationFailed.Code()
	defer func() { api.payments.Metrics().Notification(name, info.Outcome) }()
	notification, err := provider.ParseNotification(r.Context(), r.Header, body)
	if err != nil {
		info.Outcome = notificationInvalid.Code()
		api.log.WarnContext(r.Context(), "notification refused", "provider", name, "error", httpguard.Brief(err.Error()))
		httpguard.WriteProblem(w, notificationInvalid.Problem())
		return
	}
	if notification.Event == psp.EventOther {
		info.Outcome = string(psp.EventOther)
		acknowledge(w, provider)
		return
	}
	info.OrderID = notification.OrderID
	effect, err := api.payments.Notify(r.Context(), name, notification)
	if err != nil {
		api.log.ErrorContext(r.Context(), "notification did not take effect", "provider", name, "error", err)
	}
	if err == nil {
		info.Outcome = string(effect)
	}
	if err != nil || !effect.Acknowledged() {
		httpguard.RetryAfter(w, time.Second)
		httpguard.WriteProblem(w, notificationFailed.Problem())
		return
	}
	acknowledge(w, provider)
}

func acknowledge(w http.ResponseWriter, provider psp.Provider) {
	acknowledgement := provider.Acknowledge()
	w.Header().Set("Content-Type", acknowledgement.ContentType)
	w.WriteHeader(acknowledgement.Status)
	_, _ = w.Write(acknowledgement.Body)
}
