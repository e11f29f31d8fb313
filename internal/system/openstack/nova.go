package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gophercloud/gophercloud/v2"

	"usher.sh/usher/internal/system/openstack/compute"
)

// nova is the compute service. Its calls say what gophercloud's options cannot: "auto", null, and a list of everything but of nothing else.
type nova struct {
	client       *gophercloud.ServiceClient
	session      *session
	user, region string
}

// negotiate sets the microversion.
func (n *nova) negotiate(ctx context.Context) error {
	var answer struct {
		Version struct {
			Most  string `json:"version"`
			Least string `json:"min_version"`
		} `json:"version"`
	}
	if _, err := n.client.Get(ctx, versionURL(n.client.Endpoint), &answer, nil); err != nil {
		return n.failed("asking for its microversions", err)
	}
	version, err := negotiate(answer.Version.Least, answer.Version.Most)
	if err != nil {
		return fmt.Errorf("compute API at %s: %w", address(n.client.Endpoint), err)
	}
	n.client.Microversion = version
	return nil
}

// failed is an error of a call.
func (n *nova) failed(doing string, err error) error {
	err = n.session.sentence(err)
	if statusOf(err) == http.StatusForbidden {
		err = fmt.Errorf("%w: the account needs the role admin in its project", err)
	}
	return fmt.Errorf("compute API at %s, %s: %w", address(n.client.Endpoint), doing, err)
}

// setService enables or disables a service. A reason may be sent only with the latter.
func (n *nova) setService(ctx context.Context, id string, reason string) error {
	status := map[string]string{"status": "enabled"}
	if reason != "" {
		status = map[string]string{"status": "disabled", "disabled_reason": reason}
	}
	_, err := n.client.Put(ctx, n.client.ServiceURL("os-services", url.PathEscape(id)), status, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		return n.failed("changing its service", err)
	}
	return nil
}

// ask sends a request about a server. Success means that Nova has taken it, not that it will do it.
func (n *nova) ask(ctx context.Context, call compute.Call) error {
	action := n.client.ServiceURL("servers", url.PathEscape(call.Server), "action")
	var err error
	switch call.Do {
	case compute.LiveMigrate:
		err = n.post(ctx, action, map[string]map[string]*string{"os-migrateLive": {"host": nil, "block_migration": new("auto")}})
	case compute.ColdMigrate:
		err = n.post(ctx, action, map[string]map[string]*string{"migrate": {"host": nil}})
	case compute.Evacuate:
		err = n.post(ctx, action, map[string]map[string]*string{"evacuate": {}})
	case compute.Confirm:
		err = n.post(ctx, action, map[string]map[string]*string{"confirmResize": nil})
	case compute.Abort:
		_, err = n.client.Delete(ctx, n.client.ServiceURL("servers", url.PathEscape(call.Server), "migrations", strconv.FormatInt(call.Migration, 10)), nil)
	default:
		return errors.New("there is no such request")
	}
	if err != nil {
		return n.session.sentence(err)
	}
	return nil
}

func (n *nova) post(ctx context.Context, address string, body map[string]map[string]*string) error {
	_, err := n.client.Post(ctx, address, body, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent}})
	return err
}
