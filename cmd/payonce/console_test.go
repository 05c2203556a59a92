package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/console"
)

// Nobody comes into a console that nobody configured: there is none.
func TestTheConsoleIsOff(t *testing.T) {
	t.Parallel()
	api := http.NotFoundHandler()
	handler, closeConsole, err := (&settings{}).withConsole(t.Context(), api, "", console.Options{})
	require.NoError(t, err)
	closeConsole()
	_, same := handler.(http.HandlerFunc)
	require.True(t, same, "the API's own handler, without a database for the console")
}

// A console that the wrong people could come into stops the server at start.
func TestTheConsoleIsMisconfigured(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		env  string
		says string
	}{
		"short password":  {env: "short", says: "shorter than 12 characters"},
		"no such file":    {args: []string{"--console-password-file", "/none"}, says: "/none"},
		"header alone":    {args: []string{"--console-user-header", "X-User"}, says: "--console-trusted-proxies"},
		"no such network": {args: []string{"--console-trusted-proxies", "proxy"}, says: `trusted proxy "proxy"`},
	} {
		t.Run(name, func(t *testing.T) {
			if test.env != "" {
				t.Setenv("PAYONCE_CONSOLE_PASSWORD", test.env)
			}
			text, code := command(t, "", append([]string{"dev", "--data-dir", t.TempDir()}, test.args...)...)
			require.Equal(t, exitFailed, code)
			require.Contains(t, text, test.says)
			require.NotContains(t, text, `"`+test.env+`"`)
		})
	}
}

func TestTheConsolesPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("a password of tests\n"), 0o600))
	access, err := consoleSettings{passwordFile: file, proxies: []string{"10.0.0.7"}}.access()
	require.NoError(t, err)
	require.Equal(t, "a password of tests", access.Password)
	require.True(t, access.Enabled())
}
