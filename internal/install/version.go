package install

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"

	"usher.sh/usher/internal/observe"
)

// oldest is the oldest Kubernetes that Usher can be installed into. There a container may sleep before it is stopped, which
// an older apiserver drops from the manager's Deployment and then refuses what is left; webhooks have match conditions, and
// ValidatingAdmissionPolicies are served.
const oldest = "1.30"

// errTooOld says that a cluster is older than oldest.
var errTooOld = errors.New("too old for Usher")

// CheckVersion refuses a cluster that is older than oldest, with an error that wraps errTooOld.
func CheckVersion(d discovery.ServerVersionInterface) error {
	info, err := d.ServerVersion()
	if err != nil {
		return observe.Explained("asking the apiserver for its version", err)
	}
	runs, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return fmt.Errorf("reading the apiserver's version: %w", err)
	}
	if runs.LessThan(version.MustParseGeneric(oldest)) {
		return fmt.Errorf("the cluster runs Kubernetes %s, which is %w: installing needs %s or later; nothing was changed "+
			"(usher drain and usher plan need nothing installed)", info.GitVersion, errTooOld, oldest)
	}
	return nil
}
