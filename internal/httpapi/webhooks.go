package httpapi

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gorilla/mux"
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
		writeProblem(w, notFound.problem())
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxNotification))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		writeProblem(w, bodyTooLarge.problem())
		return
	}
	if err != nil {
		writeProblem(w, bodyMalformed.detail("The body could not be read to its end."))
		return
	}
	info := infoOf(r.Context())
	notification, err := provider.ParseNotification(r.Context(), r.Header, body)
	if err != nil {
		info.outcome = notificationInvalid.code
		api.log.WarnContext(r.Context(), "notification refused", "request_id", info.id, "provider", name, "error", err)
		writeProblem(w, notificationInvalid.problem())
		return
	}
	info.orderID = notification.OrderID
	effect, err := api.payments.Notify(r.Context(), name, notification)
	if err != nil {
		api.failDatabase(w, r, err)
		return
	}
	info.outcome = string(effect)
	if !effect.Acknowledged() {
		retryAfter(w, time.Second)
		writeProblem(w, notificationFailed.problem())
		return
	}
	acknowledgement := provider.Acknowledge()
	w.Header().Set("Content-Type", acknowledgement.ContentType)
	w.WriteHeader(acknowledgement.Status)
	_, _ = w.Write(acknowledgement.Body)
}
