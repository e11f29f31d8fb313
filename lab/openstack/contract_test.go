package openstack

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestContract holds the real servers to what the simulated ones are held to: the tests of the system openstack that take both.
func TestContract(t *testing.T) {
	c := begin(t, Start)
	machines := httptest.NewServer(c.machines())
	defer machines.Close()
	contract(t, c, "", "USHER_OPENSTACK_CLOUDS", "USHER_OPENSTACK_IMAGE="+ImageID, "USHER_OPENSTACK_POWER="+machines.URL)
}

// machines has hosts lose their power, and their agents fall silent, by POST /HOST/off, and have it again by POST /HOST/on, for tests that run in another process.
func (c *Cloud) machines() http.Handler {
	serve := func(do func(host string) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.PathValue("host")); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	all := http.NewServeMux()
	all.HandleFunc("POST /{host}/off", serve(func(host string) error {
		return errors.Join(c.changeSilenced(func(lines []string) []string { return append(lines, host) }), c.supervisor.run(down, "-9", host))
	}))
	all.HandleFunc("POST /{host}/on", serve(func(host string) error {
		return errors.Join(
			c.changeSilenced(func(lines []string) []string {
				return slices.DeleteFunc(lines, func(l string) bool { return l == host })
			}),
			c.supervisor.run("COMPUTES="+host, up),
		)
	}))
	return all
}

// TestIronicContract does the same for Ironic, by the fence.
func TestIronicContract(t *testing.T) {
	c := begin(t, StartIronic)
	contract(t, c, "^TestIronic", "USHER_IRONIC_CLOUDS")
}

// contract runs the tests of a name, "" for all, with a clouds.yaml in a variable, beside others.
func contract(t *testing.T, c *Cloud, named, variable string, others ...string) {
	t.Helper()
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	check(t, "writing clouds.yaml", os.WriteFile(clouds, []byte(c.Clouds()), 0o600))
	tests := exec.CommandContext(t.Context(), "go", "test", "-short", "-count", "1", "-timeout", "40m", "-v", "-run", named, "usher.sh/usher/internal/system/openstack")
	tests.Env = append(append(os.Environ(), variable+"="+clouds), others...)
	out, err := tests.CombinedOutput()
	t.Logf("%s", out)
	check(t, "the tests", err)
}
