package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README says of a charge's cost what the newest stored run says.
func TestReadmeVerdict(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../" + documentFile)
	require.NoError(t, err)
	_, verdict, found := strings.Cut(string(page), "**A new charge takes ")
	require.True(t, found)
	verdict, _, _ = strings.Cut(verdict, "\n\n")
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	require.Contains(t, words(string(readme)), words(verdict))
}
