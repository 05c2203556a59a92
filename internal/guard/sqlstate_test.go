package guard_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
)

// sources reads the SQL files of a folder of sql/, by path.
func sources(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir("../../sql/"+folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[filepath.ToSlash(path)] = string(content)
		return err
	}))
	require.NotEmpty(t, found)
	return found
}

// The registry in SQL, its mirror in Go, and what the functions raise are one.
func TestSQLStateRegistry(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).AppConn(t)
	result, err := conn.Query(t.Context(), "SELECT sqlstate, name FROM guard.sqlstates()")
	require.NoError(t, err)
	registry := map[string]string{}
	var code, name string
	_, err = pgx.ForEachRow(result, []any{&code, &name}, func() error {
		registry[code] = name
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, registry, guard.SQLStates())

	codes := slices.Sorted(maps.Keys(registry))
	raised := map[string]bool{}
	for path, text := range sources(t, "") {
		for _, code := range raisedIn(text) {
			switch {
			case ourCode.MatchString(code):
				raised[code] = true
			default:
				require.Equal(t, "insufficient_privilege", code, "%s raises it; ours alone, and this one of PostgreSQL's", path)
			}
		}
	}
	require.Equal(t, codes, slices.Sorted(maps.Keys(raised)), "what is raised is registered, and the other way round")
	require.Equal(t, codes, constants(t), "each has its constant")
}

var (
	raise   = regexp.MustCompile(`\bRAISE\b(?:'(?:[^']|'')*'|[^;'])*;`)
	errcode = regexp.MustCompile(`\bERRCODE = '([^']*)'`)
	ourCode = regexp.MustCompile(`^IK\d{3}$`)
)

// raisedIn are the codes with which a function raises. An exception without a
// code of its own could be told apart by its text alone; its code is none.
func raisedIn(text string) []string {
	var codes []string
	for _, statement := range raise.FindAllString(text, -1) {
		if code := errcode.FindStringSubmatch(statement); code != nil {
			codes = append(codes, code[1])
		} else {
			codes = append(codes, "none")
		}
	}
	return codes
}

func TestRaisedIn(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"IK001", "none", "insufficient_privilege"}, raisedIn(`
		-- Raises nothing here.
		RAISE EXCEPTION 'a; ''b'' ERRCODE' USING ERRCODE = 'IK001';
		RAISE EXCEPTION 'b';
		RAISE EXCEPTION 'c %', d USING HINT = format('e;'), ERRCODE = 'insufficient_privilege';`))
}

// constants are the values of the constants in sqlstate.go.
func constants(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "sqlstate.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var values []string
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		ast.Inspect(group, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok {
				value, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				values = append(values, value)
			}
			return true
		})
	}
	slices.Sort(values)
	return values
}
