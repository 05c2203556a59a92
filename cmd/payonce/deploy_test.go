package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Every command line of payonce in deploy/ is one that payonce takes.
func TestDeployedCommandLines(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../deploy/*/*.yaml")
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		documents := yaml.NewDecoder(bytes.NewReader(content))
		for {
			var document any
			err := documents.Decode(&document)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
			for _, line := range commandLines(document) {
				found++
				command, flags, err := newRoot().Find(line)
				require.NoError(t, err, "%s: %v", file, line)
				require.Equal(t, line[0], command.Name(), "%s: %v", file, line)
				require.NoError(t, command.ParseFlags(flags), "%s: %v", file, line)
				require.Empty(t, command.Flags().Args(), "%s: %v", file, line)
			}
		}
	}
	require.GreaterOrEqual(t, found, 3)
}

// commandLines finds the arguments of every container of the image payonce.
func commandLines(node any) [][]string {
	var lines [][]string
	switch node := node.(type) {
	case []any:
		for _, each := range node {
			lines = append(lines, commandLines(each)...)
		}
	case map[string]any:
		for _, name := range []string{"command", "args"} {
			words, ok := node[name].([]any)
			if !ok || node["image"] != "payonce" {
				continue
			}
			var line []string
			for _, word := range words {
				line = append(line, word.(string))
			}
			lines = append(lines, line)
		}
		for _, each := range node {
			lines = append(lines, commandLines(each)...)
		}
	}
	return lines
}
