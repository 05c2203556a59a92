package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/operator"
	"github.com/payonce/payonce/internal/postgres"
)

const keysHelp = `Works as the owner of the schemas. docs/operators.md tells when to do what.`

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List idempotency keys, read the story of one, end one by hand",
		Long:  keysHelp,
	}
	cmd.AddCommand(newKeysList(), newKeysShow(), newKeysRelease(), newKeysResolve())
	return cmd
}

// withDesk opens the desk that a command works at.
func (s *settings) withDesk(ctx context.Context, do func(*operator.Desk) error) error {
	if s.databaseURL == "" {
		return errNoDatabase
	}
	pool, err := postgres.Open(ctx, s.databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	desk, err := operator.New(ctx, pool)
	if err != nil {
		return err
	}
	return do(desk)
}

func newKeysList() *cobra.Command {
	var s settings
	var filter operator.Filter
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys, the newest first",
		Long:  "Lists keys, the newest first. " + keysHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withDesk(cmd.Context(), func(desk *operator.Desk) error {
				keys, err := desk.Keys(cmd.Context(), filter)
				if err != nil {
					return err
				}
				return printKeys(cmd.OutOrStdout(), keys, filter.Limit, asJSON)
			})
		},
	}
	s.databaseFlags(cmd.Flags())
	cmd.Flags().StringVar(&filter.Scope, "scope", "", "only keys of this merchant, or of webhook")
	cmd.Flags().StringVar(&filter.Prefix, "prefix", "", "only keys that begin so")
	cmd.Flags().StringVar(&filter.State, "state", "", "only keys that are held, in_doubt, completed or expired")
	cmd.Flags().DurationVar(&filter.OlderThan, "older-than", 0, "only keys that were claimed longer ago, such as 90m")
	cmd.Flags().IntVar(&filter.Limit, "limit", 100, "at most so many, 1 to 100000")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func newKeysShow() *cobra.Command {
	var s settings
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SCOPE KEY",
		Short: "Tell the story of one key, in time order",
		Long: `Tells what the tables know of one key and of the order that it charged or
refunded, in time order. A replay writes nothing, so replays are not in it.
` + keysHelp + `

Exit code: 0 shown, 1 failed, 2 there is no such key.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.withDesk(cmd.Context(), func(desk *operator.Desk) error {
				story, err := desk.Key(cmd.Context(), args[0], args[1])
				if errors.Is(err, operator.ErrNotFound) {
					return exitError{exitRefused, fmt.Errorf("there is no key %s in scope %s", shown(args[1]), shown(args[0]))}
				}
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), story)
				}
				return printKeyStory(cmd.OutOrStdout(), story)
			})
		},
	}
	s.databaseFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// byHand is what release and resolve have in common.
type byHand struct {
	settings
	operation guard.Operation
	yes       bool
	asJSON    bool
}

func (b *byHand) flags(cmd *cobra.Command) {
	b.databaseFlags(cmd.Flags())
	cmd.Flags().StringVar(&b.operation.Reason, "reason", "", "why; it is journalled")
	cmd.Flags().StringVar(&b.operation.Actor, "actor", accountName(), "who does it; it is journalled")
	cmd.Flags().BoolVar(&b.operation.Force, "force", false, "even from a holder that is at work")
	cmd.Flags().BoolVar(&b.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&b.asJSON, "json", false, "print one JSON object")
	_ = cmd.MarkFlagRequired("reason")
}

// accountName is the name of whoever runs the program, or empty.
func accountName() string {
	account, err := user.Current()
	if err != nil {
		return os.Getenv("USER")
	}
	return account.Username
}

const exitCodesByHand = `

Exit code: 0 done, 1 failed, 2 nothing was changed: not confirmed, still held,
completed already, or no such key.`

func newKeysRelease() *cobra.Command {
	var b byHand
	cmd := &cobra.Command{
		Use:   "release SCOPE KEY --reason WHY",
		Short: "Free a key whose work surely had no effect",
		Long: `Frees an open key, so that its client's retry starts anew. Only when the money
surely did not move: ask the provider first, for ` + "`payonce reconcile`" + ` does just
that. The key's charge or refund is recorded as unsent. ` + keysHelp + exitCodesByHand,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.run(cmd, args, "Release", "the retry moves money again", func(desk *operator.Desk) (operator.Ended, error) {
				return desk.Release(cmd.Context(), b.operation)
			})
		},
	}
	b.flags(cmd)
	return cmd
}

func newKeysResolve() *cobra.Command {
	var b byHand
	var resolution operator.Resolution
	var moved, refused bool
	var bodyFile, contentType string
	cmd := &cobra.Command{
		Use:   "resolve SCOPE KEY --reason WHY (--moved | --refused | --status CODE)",
		Short: "End a key with the response that its retries get from then on",
		Long: `Ends an open key. One that started a charge or refund: say what the provider's
own console says, --moved or --refused; order, stock, outbox and response follow
from it. Any other key: give the response with --status and --body-file.
` + keysHelp + exitCodesByHand,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if moved {
				resolution.Verdict = operator.Moved
			}
			if refused {
				resolution.Verdict = operator.Refused
			}
			if bodyFile != "" {
				body, err := os.ReadFile(bodyFile) //nolint:gosec // the operator's own file
				if err != nil {
					return fmt.Errorf("read the response: %w", err)
				}
				resolution.Response.Body = body
			}
			resolution.Response.Headers = map[string]string{"Content-Type": contentType}
			return b.run(cmd, args, "Resolve", "every retry gets this end", func(desk *operator.Desk) (operator.Ended, error) {
				return desk.Resolve(cmd.Context(), b.operation, resolution)
			})
		},
	}
	b.flags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&moved, "moved", false, "the provider has the money moved")
	flags.BoolVar(&refused, "refused", false, "the provider refused for good")
	flags.StringVar(&resolution.TradeNo, "trade-no", "", "the provider's number of the charge or refund")
	flags.StringVar(&resolution.Code, "code", "operator", "the provider's code, with --refused")
	flags.IntVar(&resolution.Response.Status, "status", 0, "status of the response, 100 to 599")
	flags.StringVar(&bodyFile, "body-file", "", "file with the body of the response")
	flags.StringVar(&contentType, "content-type", "application/json", "type of that body")
	cmd.MarkFlagsOneRequired("moved", "refused", "status")
	cmd.MarkFlagsMutuallyExclusive("moved", "refused", "status")
	return cmd
}

// run asks, ends the key and tells what became of it.
func (b *byHand) run(
	cmd *cobra.Command, args []string, verb, consequence string, end func(*operator.Desk) (operator.Ended, error),
) error {
	b.operation.Scope, b.operation.Key = args[0], args[1]
	return b.withDesk(cmd.Context(), func(desk *operator.Desk) error {
		story, err := desk.Key(cmd.Context(), args[0], args[1])
		if err != nil && !errors.Is(err, operator.ErrNotFound) {
			return err
		}
		if story.Key == nil {
			return b.refused(cmd, operator.Ended{Outcome: guard.Gone})
		}
		if !b.yes {
			question := fmt.Sprintf("%s key %s of scope %s (%s, claimed %s ago%s): %s. Type yes to go on: ", verb,
				shown(args[1]), shown(args[0]), story.Key.State, age(story.Key.Age), ordersOf(story), consequence)
			if !confirmed(cmd.ErrOrStderr(), cmd.InOrStdin(), question) {
				return exitError{exitRefused, errors.New("not confirmed: nothing was changed (--yes does not ask)")}
			}
		}
		ended, err := end(desk)
		if err != nil {
			return err
		}
		if ended.Outcome != guard.Taken {
			return b.refused(cmd, ended)
		}
		if b.asJSON {
			return printJSON(cmd.OutOrStdout(), ended)
		}
		what := strings.ToLower(verb) + "d"
		if ended.ID != "" {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s; %s of order %s is %s\n", what, shown(ended.ID), shown(ended.OrderID), ended.Status)
		} else {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), what)
		}
		return err
	})
}

// refused tells why nothing was changed.
func (b *byHand) refused(cmd *cobra.Command, ended operator.Ended) error {
	if b.asJSON {
		if err := printJSON(cmd.OutOrStdout(), ended); err != nil {
			return err
		}
		return exitError{code: exitRefused}
	}
	why := map[guard.Outcome]string{
		guard.Held:      "a holder is at work on this key: wait for the end of its lease, or give --force",
		guard.Completed: "this key has its response already, which is what every retry gets",
		guard.Gone:      "there is no such key",
	}[ended.Outcome]
	return exitError{exitRefused, fmt.Errorf("nothing was changed: %s", why)}
}

func ordersOf(story operator.KeyStory) string {
	if len(story.Orders) == 0 {
		return ""
	}
	return ", order " + shown(strings.Join(story.Orders, ", "))
}

// confirmed asks and takes nothing but yes for one.
func confirmed(out io.Writer, in io.Reader, question string) bool {
	_, _ = fmt.Fprint(out, question)
	line, _ := bufio.NewReader(in).ReadString('\n')
	return strings.TrimSpace(line) == "yes"
}

// age writes a duration for people, to two units at most.
func age(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return d.Round(time.Second).String()
	}
}
