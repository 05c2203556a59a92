package providers_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/providers"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestConfigured(t *testing.T) {
	t.Parallel()
	keys, err := pspsim.NewKeys()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(file, []byte(keys.AlipayMerchantPrivateKey), 0o600))
	complete := map[string]string{
		"PAYONCE_ALIPAY_APP_ID": "2021", "PAYONCE_ALIPAY_PRIVATE_KEY_FILE": file, "PAYONCE_ALIPAY_PUBLIC_KEY": keys.AlipayPublicKey,
	}
	without := func(name string) map[string]string {
		fewer := map[string]string{}
		for variable, value := range complete {
			if variable != name {
				fewer[variable] = value
			}
		}
		return fewer
	}
	env := func(variables map[string]string) providers.Environment {
		return func(name string) string { return variables[name] }
	}
	all, err := providers.Configured(env(complete))
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "alipay", all[0].Name())
	for says, variables := range map[string]map[string]string{
		"no payment provider is configured": {},
		"PAYONCE_ALIPAY_APP_ID":             without("PAYONCE_ALIPAY_APP_ID"),
		"PAYONCE_ALIPAY_PRIVATE_KEY":        without("PAYONCE_ALIPAY_PRIVATE_KEY_FILE"),
		"PAYONCE_ALIPAY_PUBLIC_KEY_FILE":    without("PAYONCE_ALIPAY_PUBLIC_KEY"),
	} {
		_, err := providers.Configured(env(variables))
		require.ErrorContains(t, err, says)
	}
}

func TestSimulatedProvidersAreAllThereAre(t *testing.T) {
	t.Parallel()
	keys, err := pspsim.NewKeys()
	require.NoError(t, err)
	all, err := providers.Simulated(keys, "http://127.0.0.1:9")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, provider := range all {
		require.False(t, names[provider.Name()], "registered twice")
		names[provider.Name()] = true
	}
	folders, err := filepath.Glob("../psp/*/classify.go")
	require.NoError(t, err)
	require.Len(t, names, len(folders), "a folder below internal/psp is not registered")
}
