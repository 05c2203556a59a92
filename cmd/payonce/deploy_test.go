package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	strictyaml "sigs.k8s.io/yaml"

	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/secret"
	"github.com/payonce/payonce/internal/stage"
)

// container is one of the image payonce in compose.yaml or deploy/.
type container struct {
	file, name string
	line       []string
	// environment is by name; a value that comes from a secret is empty.
	environment map[string]string
}

// Every command line of payonce in compose.yaml and deploy/ is one that payonce
// takes, and every variable one that the command reads.
func TestDeployedCommandLines(t *testing.T) {
	t.Parallel()
	all := deployed(t)
	require.GreaterOrEqual(t, len(all), 7)
	for _, c := range all {
		what := c.file + ", " + c.name
		command, flags, err := newRoot().Find(c.line)
		require.NoError(t, err, what)
		require.Equal(t, c.line[0], command.Name(), what)
		require.NoError(t, command.ParseFlags(flags), what)
		require.Empty(t, command.Flags().Args(), what)

		known := variablesOf(command)
		if c.line[0] == "serve" {
			for _, name := range providerVariables(t, c) {
				known[name] = true
			}
		}
		for name := range c.environment {
			require.True(t, known[name], "%s: payonce %s does not read %s", what, c.line[0], name)
		}
	}
}

// variablesOf are the variables that stand for a command's flags.
func variablesOf(command *cobra.Command) map[string]bool {
	known := map[string]bool{}
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		known[variable(flag)] = true
		if flag.Annotations[secretFlag] != nil {
			known[variable(flag)+secret.FileSuffix] = true
		}
	})
	return known
}

// providerVariables configures the providers as the container does, with the
// simulator's secrets in the place of real ones, and tells what was read.
func providerVariables(t *testing.T, c container) []string {
	t.Helper()
	keys, err := pspsim.NewKeys()
	require.NoError(t, err)
	simulator, err := stage.NewSimulator(t.Context(), keys, "http://127.0.0.1:9")
	require.NoError(t, err)
	defer simulator.Close()
	values := map[string]string{}
	for _, setting := range simulator.Environment("http://127.0.0.1:9") {
		name, value, _ := strings.Cut(setting, "=")
		values[name] = value
	}
	var read []string
	_, err = providers.Configured(func(name string) string {
		read = append(read, name)
		value, ok := c.environment[name]
		setting, isFile := strings.CutSuffix(name, secret.FileSuffix)
		if !ok || !isFile {
			return value
		}
		path := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(path, []byte(values[setting]), 0o600))
		return path
	}, http.DefaultClient)
	require.NoError(t, err, "%s, %s", c.file, c.name)
	return read
}

// deployed finds every container of the image payonce that runs payonce.
func deployed(t *testing.T) []container {
	t.Helper()
	files, err := filepath.Glob("../../deploy/*/*.yaml")
	require.NoError(t, err)
	var all []container
	for _, file := range append(files, "../../compose.yaml") {
		for _, document := range documents(t, file) {
			var node any
			require.NoError(t, yaml.Unmarshal(document, &node), file)
			for _, c := range containers(node, "") {
				c.file = file
				all = append(all, c)
			}
		}
	}
	return all
}

// documents splits a file at its --- lines.
func documents(t *testing.T, file string) [][]byte {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var all [][]byte
	for {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, file)
		one, err := yaml.Marshal(document)
		require.NoError(t, err, file)
		all = append(all, one)
	}
}

func containers(node any, key string) []container {
	var all []container
	switch node := node.(type) {
	case []any:
		for _, each := range node {
			all = append(all, containers(each, "")...)
		}
	case map[string]any:
		if c, ok := containerOf(node, key); ok {
			all = append(all, c)
		}
		for name, each := range node {
			all = append(all, containers(each, name)...)
		}
	}
	return all
}

func containerOf(node map[string]any, key string) (container, bool) {
	words, ok := node["command"].([]any) // Compose
	if !ok {
		words, ok = node["args"].([]any) // Kubernetes
	}
	if _, other := node["entrypoint"]; !ok || other || node["image"] != "payonce" {
		return container{}, false
	}
	c := container{name: key, environment: map[string]string{}}
	if name, ok := node["name"].(string); ok {
		c.name = name
	}
	for _, word := range words {
		c.line = append(c.line, word.(string))
	}
	compose, _ := node["environment"].(map[string]any)
	for name, value := range compose {
		c.environment[name] = value.(string)
	}
	kubernetes, _ := node["env"].([]any)
	for _, variable := range kubernetes {
		variable := variable.(map[string]any)
		value, _ := variable["value"].(string)
		c.environment[variable["name"].(string)] = value
	}
	return c, true
}

// Every Kubernetes manifest has the fields of its kind and no others.
func TestDeployedManifests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../deploy/*/*.yaml")
	require.NoError(t, err)
	found := map[string]int{}
	for _, file := range files {
		for _, document := range documents(t, file) {
			var head struct {
				Kind       string `json:"kind"`
				APIVersion string `json:"apiVersion"`
			}
			require.NoError(t, strictyaml.Unmarshal(document, &head), file)
			kind := head.APIVersion + " " + head.Kind
			into, ok := map[string]any{
				"apps/v1 Deployment": &appsv1.Deployment{}, "batch/v1 Job": &batchv1.Job{},
				"v1 Service": &corev1.Service{}, "policy/v1 PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
			}[kind]
			if head.Kind == "" {
				continue // a file of payonce or Compose
			}
			require.True(t, ok, "%s: %s", file, kind)
			require.NoError(t, strictyaml.UnmarshalStrict(document, into), "%s: %s", file, kind)
			found[head.Kind]++
			if deployment, ok := into.(*appsv1.Deployment); ok {
				requireSound(t, file, deployment)
			}
		}
	}
	require.Equal(t, map[string]int{"Deployment": 2, "Job": 1, "Service": 2, "PodDisruptionBudget": 1}, found)
}

// requireSound looks for probes, and for a grace period in which a server that
// is told to stop can do so.
func requireSound(t *testing.T, file string, deployment *appsv1.Deployment) {
	t.Helper()
	pod := deployment.Spec.Template
	require.Equal(t, deployment.Spec.Selector.MatchLabels, pod.Labels, file)
	for _, c := range pod.Spec.Containers {
		if c.Image != "payonce" {
			continue
		}
		require.NotNil(t, c.ReadinessProbe, file)
		require.NotNil(t, c.LivenessProbe, file)
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, file)
		command, flags, err := newRoot().Find(c.Args)
		require.NoError(t, err)
		require.NoError(t, command.ParseFlags(flags))
		stop, err := command.Flags().GetDuration("stop-within")
		require.NoError(t, err)
		drain, err := command.Flags().GetDuration("drain-delay")
		require.NoError(t, err)
		require.Greater(t, float64(*pod.Spec.TerminationGracePeriodSeconds), (stop + drain + settleTime).Seconds(), file)
	}
}
