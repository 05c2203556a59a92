package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/secret"
)

func TestSecretFromVariableOrFile(t *testing.T) {
	t.Parallel()
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for name, test := range map[string]struct {
		variables map[string]string
		value     string
		given     bool
		wrong     string
	}{
		"neither":          {},
		"empty variable":   {variables: map[string]string{"S": ""}},
		"variable":         {variables: map[string]string{"S": " hush "}, value: " hush ", given: true},
		"file":             {variables: map[string]string{"S_FILE": file("hush\n")}, value: "hush", given: true},
		"empty and file":   {variables: map[string]string{"S": "", "S_FILE": file("hush")}, value: "hush", given: true},
		"several lines":    {variables: map[string]string{"S_FILE": file("a\nb\n")}, value: "a\nb", given: true},
		"both":             {variables: map[string]string{"S": "hush", "S_FILE": file("hush")}, given: true, wrong: "S and S_FILE are both set"},
		"no such file":     {variables: map[string]string{"S_FILE": missing}, given: true, wrong: "S_FILE: open " + missing},
		"a folder":         {variables: map[string]string{"S_FILE": t.TempDir()}, given: true, wrong: "S_FILE: read the secret"},
		"empty file":       {variables: map[string]string{"S_FILE": file(" \n")}, given: true, wrong: "is empty"},
		"too large a file": {variables: map[string]string{"S_FILE": file(strings.Repeat("hush", 20000))}, given: true, wrong: "larger than 65536 bytes"},
	} {
		value, given, err := secret.Read(func(name string) string { return test.variables[name] }, "S")
		require.Equal(t, test.value, value, name)
		require.Equal(t, test.given, given, name)
		if test.wrong == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, test.wrong, name)
		require.NotContains(t, err.Error(), "hush", name)
	}
}
