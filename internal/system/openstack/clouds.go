package openstack

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/internal/text"
)

// account is how Usher logs in, and to which region.
type account struct {
	options gophercloud.AuthOptions
	region  string // "": the only one of the catalog
	face    string
	field   string // of the policy: spec.system.openstack, say
}

// cloudsFile is what Usher reads of a clouds.yaml. gophercloud's own reader takes environment variables and files of the machine as well, which are the
// manager's and none of the author of a policy.
type cloudsFile struct {
	Clouds map[string]cloudEntry `json:"clouds"`
}

type cloudEntry struct {
	Auth       cloudAuth `json:"auth"`
	AuthType   string    `json:"auth_type"`
	Region     string    `json:"region_name"`
	Interface  string    `json:"interface"`
	Endpoint   string    `json:"endpoint_type"`
	Verify     *bool     `json:"verify"`
	CACert     string    `json:"cacert"`
	Cert       string    `json:"cert"`
	Key        string    `json:"key"`
	Profile    string    `json:"profile"`
	CloudGiven string    `json:"cloud"`
}

type cloudAuth struct {
	AuthURL           string `json:"auth_url"`
	Username          string `json:"username"`
	UserID            string `json:"user_id"`
	Password          string `json:"password"`
	ProjectName       string `json:"project_name"`
	ProjectID         string `json:"project_id"`
	UserDomainName    string `json:"user_domain_name"`
	UserDomainID      string `json:"user_domain_id"`
	ProjectDomainName string `json:"project_domain_name"`
	ProjectDomainID   string `json:"project_domain_id"`
	DomainName        string `json:"domain_name"`
	DomainID          string `json:"domain_id"`
	SystemScope       string `json:"system_scope"`
	CredentialID      string `json:"application_credential_id"`
	CredentialName    string `json:"application_credential_name"`
	CredentialSecret  string `json:"application_credential_secret"`
}

// parseClouds reads the entry of a clouds.yaml with a name, or its only one. Field is that of the policy which names it.
func parseClouds(data []byte, field, name string) (account, error) {
	var file cloudsFile
	if err := yaml.Unmarshal(data, &file); err != nil {
		return account{}, errors.New("it is no clouds.yaml: it cannot be read as YAML of that shape") // the error would quote a password
	}
	names := slices.Sorted(maps.Keys(file.Clouds))
	switch {
	case len(names) == 0:
		return account{}, errors.New("it is no clouds.yaml: it has no clouds")
	case name == "" && len(names) > 1:
		return account{}, fmt.Errorf("it has the clouds %s: say in %s.cloud which one is meant", named(names), field)
	case name == "":
		name = names[0]
	case !slices.Contains(names, name):
		return account{}, fmt.Errorf("it has no cloud %s, but %s: correct %s.cloud", text.Name(name), named(names), field)
	}
	entry := file.Clouds[name]
	found, err := entry.account(field)
	if err != nil {
		return account{}, fmt.Errorf("cloud %s: %w", text.Name(name), err)
	}
	return found, nil
}

func named(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = text.Name(name)
	}
	return text.List(all, 10)
}

func (c *cloudEntry) account(field string) (account, error) {
	if err := c.unusable(field); err != nil {
		return account{}, err
	}
	a := c.Auth
	options := gophercloud.AuthOptions{
		IdentityEndpoint: strings.TrimSpace(a.AuthURL), AllowReauth: true,
		Username: a.Username, UserID: a.UserID, Password: a.Password,
		ApplicationCredentialID: a.CredentialID, ApplicationCredentialName: a.CredentialName, ApplicationCredentialSecret: a.CredentialSecret,
	}
	if a.UserID == "" && a.CredentialID == "" {
		options.DomainName, options.DomainID = a.UserDomainName, a.UserDomainID
		if options.DomainName == "" && options.DomainID == "" {
			options.DomainName, options.DomainID = a.DomainName, a.DomainID
		}
	}
	if a.CredentialSecret == "" {
		options.Scope = a.scope()
	}
	return account{options: options, region: c.Region, face: strings.TrimSuffix(cmp.Or(c.Interface, c.Endpoint, "public"), "URL"), field: field}, nil
}

func (a *cloudAuth) scope() *gophercloud.AuthScope {
	switch {
	case a.SystemScope != "":
		return &gophercloud.AuthScope{System: true}
	case a.ProjectID != "":
		return &gophercloud.AuthScope{ProjectID: a.ProjectID}
	case a.ProjectName != "":
		id, name := a.ProjectDomainID, a.ProjectDomainName
		if id == "" && name == "" {
			id, name = cmp.Or(a.DomainID, a.UserDomainID), cmp.Or(a.DomainName, a.UserDomainName)
		}
		if id != "" {
			name = ""
		}
		return &gophercloud.AuthScope{ProjectName: a.ProjectName, DomainID: id, DomainName: name}
	}
	return nil
}

// unusable says what is wrong with an entry before it is used.
func (c *cloudEntry) unusable(field string) error {
	switch {
	case c.CACert != "" || c.Cert != "" || c.Key != "":
		return fmt.Errorf("it names files (cacert, cert, key), which are not there where Usher runs: take them out, and name the certificate authority in %s.ca", field)
	case c.Verify != nil && !*c.Verify:
		return fmt.Errorf("verify is false, and Usher sends no password to what it cannot verify: name the certificate authority in %s.ca", field)
	case c.AuthType != "" && !slices.Contains([]string{"password", "v3password", "v3applicationcredential"}, c.AuthType):
		return fmt.Errorf("auth_type is %s, and Usher knows password and v3applicationcredential", text.Name(c.AuthType))
	case c.Auth.AuthURL == "" && (c.Profile != "" || c.CloudGiven != ""):
		return errors.New("auth.auth_url is missing: Usher knows no profiles")
	}
	if err := c.Auth.unreachable(); err != nil {
		return err
	}
	return c.Auth.incomplete()
}

func (a *cloudAuth) unreachable() error {
	switch address, err := url.Parse(strings.TrimSpace(a.AuthURL)); {
	case err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return errors.New("auth.auth_url must be a URL like https://HOST:5000/v3")
	case address.User != nil:
		return errors.New("auth.auth_url has a user in it: auth.username and auth.password say who logs in")
	}
	return nil
}

// incomplete says what is missing for logging in, by an application credential or by a password.
func (a *cloudAuth) incomplete() error {
	user := a.Username != "" || a.UserID != ""
	if a.CredentialSecret != "" {
		if a.CredentialID == "" && (a.CredentialName == "" || !user) {
			return errors.New("auth.application_credential_secret needs application_credential_id, or application_credential_name and the user")
		}
		return nil
	}
	switch {
	case a.Password == "" || !user:
		return errors.New("auth has neither a username and a password nor an application credential")
	case a.scope() == nil:
		return errors.New("auth names no project (project_name or project_id): without one nothing may be done")
	case a.UserID == "" && a.UserDomainID+a.UserDomainName+a.DomainID+a.DomainName == "":
		return errors.New("auth names no domain of the user (user_domain_name or user_domain_id)")
	}
	return nil
}
