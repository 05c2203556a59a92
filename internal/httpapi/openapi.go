package httpapi

import (
	_ "embed"
	"net/http"
)

// openAPI describes this API in OpenAPI 3.1: every route, every answer, every
// problem.
//
//go:embed openapi.yaml
var openAPI []byte

// getOpenAPI is GET /openapi.yaml.
func (api *API) getOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml") // RFC 9512
	_, _ = w.Write(openAPI)
}
