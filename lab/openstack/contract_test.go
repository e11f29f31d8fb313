package openstack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestContract holds the real servers to what the simulated ones are held to: the tests of the system openstack that take both.
func TestContract(t *testing.T) {
	c := start(t)
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	check(t, "writing clouds.yaml", os.WriteFile(clouds, []byte(c.Clouds()), 0o600))
	tests := exec.CommandContext(t.Context(), "go", "test", "-short", "-count", "1", "-timeout", "40m", "-v", "usher.sh/usher/internal/system/openstack")
	tests.Env = append(os.Environ(), "USHER_OPENSTACK_CLOUDS="+clouds, "USHER_OPENSTACK_IMAGE="+ImageID)
	out, err := tests.CombinedOutput()
	t.Logf("%s", out)
	check(t, "the tests", err)
}
