package httpapi

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorilla/mux"
	"github.com/pb33f/libopenapi"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/httpguard"
)

func document(t *testing.T) *v3.Document {
	t.Helper()
	document, err := libopenapi.NewDocument(openAPI)
	require.NoError(t, err)
	model, err := document.BuildV3Model()
	require.NoError(t, err)
	return &model.Model
}

func TestOpenAPIHasEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	var routed, described []string
	router := (&API{log: slog.New(slog.DiscardHandler)}).routes()
	require.NoError(t, router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		require.NoError(t, err)
		methods, err := route.GetMethods()
		require.NoError(t, err, "a route without methods takes them all")
		for _, method := range methods {
			routed = append(routed, method+" "+path)
		}
		return nil
	}))
	for path, item := range document(t).Paths.PathItems.FromOldest() {
		for method := range item.GetOperations().FromOldest() {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routed)
	slices.Sort(described)
	require.Equal(t, routed, described)
}

// Every problem of the API is in the document, with its page, in the answers of
// its status; and the document has no other.
func TestOpenAPIHasEveryProblemAndNoOther(t *testing.T) {
	t.Parallel()
	model := document(t)
	known := map[string]int{}
	for _, kind := range apiProblems() {
		problem := kind.Problem()
		known[kind.Code()] = problem.Status
		schema := model.Components.Schemas.GetOrZero(kind.Code())
		require.NotNil(t, schema, "components.schemas has no %s", kind.Code())
		require.Equal(t, problem.Type, schema.Schema().ExternalDocs.URL)
		members := schema.Schema().AllOf[1].Schema().Properties
		require.Equal(t, problem.Type, members.GetOrZero("type").Schema().Const.Value)
		require.Equal(t, problem.Title, members.GetOrZero("title").Schema().Const.Value)
		require.Equal(t, strconv.Itoa(problem.Status), members.GetOrZero("status").Schema().Const.Value)
		require.Equal(t, problem.Code, members.GetOrZero("code").Schema().Const.Value)
		require.Equal(t, string(problem.Retry), members.GetOrZero("retry").Schema().Const.Value)
	}
	for name, schema := range model.Components.Schemas.FromOldest() {
		_, ok := known[name]
		require.Equal(t, ok, schema.Schema().ExternalDocs != nil, "components.schemas.%s", name)
	}

	answered := map[string]bool{}
	for path, item := range model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			for status, response := range operation.Responses.Codes.FromOldest() {
				for _, code := range problemsOf(response) {
					require.Equal(t, strconv.Itoa(known[code]), status, "%s %s: %s", method, path, code)
					answered[code] = true
				}
			}
		}
	}
	for code := range known {
		// An unlisted method has no operation that could say so.
		require.Equal(t, code != httpguard.MethodNotAllowed.Code(), answered[code], "no operation answers with %s", code)
	}
}

func problemsOf(response *v3.Response) []string {
	if response.Content == nil || response.Content.GetOrZero(httpguard.ProblemType) == nil {
		return nil
	}
	media := response.Content.GetOrZero(httpguard.ProblemType)
	proxies := append(slices.Clone(media.Schema.Schema().OneOf), media.Schema)
	var codes []string
	for _, proxy := range proxies {
		if code, ok := strings.CutPrefix(proxy.GetReference(), "#/components/schemas/"); ok {
			codes = append(codes, code)
		}
	}
	return codes
}
