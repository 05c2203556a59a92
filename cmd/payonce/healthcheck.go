package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newHealthcheck() *cobra.Command {
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck [URL]",
		Short: "Ask a server whether it is well, for images that have no curl",
		Long: `Sends GET to URL, http://127.0.0.1:8080/readyz unless given, and ends with exit
code 0 when the answer is 2xx and with 1 otherwise. /readyz looks at the database
too, /healthz tells only that the process lives. On a loopback address any
certificate will do, since none is for that.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := "http://127.0.0.1:8080/readyz"
			if len(args) == 1 {
				url = args[0]
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			return healthcheck(ctx, url)
		},
	}
	cmd.Flags().DurationVar(&within, "within", 3*time.Second, "how long the answer may take")
	return cmd
}

func healthcheck(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask for its health: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12,
		//nolint:gosec // the answer comes from this machine, and nothing that is secret is sent
		InsecureSkipVerify: net.ParseIP(request.URL.Hostname()).IsLoopback(),
	}}}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask for its health: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
