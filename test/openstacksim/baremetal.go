package openstacksim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// Machine is one of Ironic's nodes.
type Machine struct {
	UUID, Name string
	// Power and Target are what Ironic says; "": null. It reads the power with a request alone: the machines were enrolled, and no more.
	Power, Target string
	LastError     string
	Maintenance   bool
	// Instance is the name of the instance on it.
	Instance string
	// Locked is the conductor with a task for it; "": none has.
	Locked string
	// On: it runs.
	On bool
	// Ending: it is powering off, which Ironic takes for off.
	Ending bool
	// Broken: what controls its power answers with errors. Mute: it does not answer, and the task goes on.
	Broken, Mute bool
}

// Enroll adds a machine whose power was not read yet, and returns its UUID.
func (c *Cloud) Enroll(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &Machine{UUID: fmt.Sprintf("%08d-0000-4000-8000-00000000bae7", len(c.machines)+1), Name: name}
	c.machines = append(c.machines, m)
	return m.UUID
}

// ChangeMachine changes a machine behind Ironic's back, by its name or UUID.
func (c *Cloud) ChangeMachine(id string, change func(*Machine)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.machine(id))
}

// Machine is a copy of one, by name or UUID.
func (c *Cloud) Machine(id string) Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.machine(id)
}

func (c *Cloud) machine(id string) *Machine {
	for _, m := range c.machines {
		if m.UUID == strings.ToLower(id) || m.Name == id {
			return m
		}
	}
	return nil
}

// The words of Ironic for power.
const (
	powerOn  = "power on"
	powerOff = "power off"
)

// stepPower goes on with what a conductor does to a machine. It reads the power first, and changes nothing where that fails.
func (m *Machine) stepPower() {
	switch {
	case m.Target == "" || m.Mute:
		return
	case m.Broken:
		m.LastError = "Failed to change power state to '" + m.Target + "': HTTP GET answered 404"
	case m.Ending && m.Target == powerOff:
		m.Power = powerOff
	default:
		m.Power, m.On = m.Target, m.Target == powerOn
	}
	m.Target, m.Locked = "", ""
}

// logical are the names that machines may have.
var logical = regexp.MustCompile(`^[a-zA-Z0-9-._~]+$`)

// ironicFault has its message as JSON in a string.
func ironicFault(status int, message string) (int, object) {
	inner, _ := json.Marshal(object{"faultcode": "Client", "faultstring": message, "debuginfo": nil}) // strings
	return status, object{"error_message": string(inner)}
}

// ironic answers as a conductor with the API in one process.
func (c *Cloud) ironic(r *http.Request, sent []byte) (int, object) {
	rest, nodes := strings.CutPrefix(r.URL.Path, "/v1/nodes/")
	id, power := strings.CutSuffix(rest, "/states/power")
	first, _, _ := strings.Cut(id, "/")
	m := c.machine(id)
	switch {
	case !nodes || r.Header.Get("X-OpenStack-Ironic-API-Version") != "1.10":
		return ironicFault(http.StatusNotFound, "The resource could not be found.")
	case !logical.MatchString(first):
		return http.StatusBadRequest, object{"error_message": `{"code": 400, "title": "Bad Request", "description": "Expected UUID or name for node: ` + first + `"}`}
	case m == nil || c.Strange:
		return ironicFault(http.StatusNotFound, "Node "+id+" could not be found.")
	case !power && r.Method == http.MethodGet:
		return http.StatusOK, m.said()
	case !power || r.Method != http.MethodPut:
		return ironicFault(http.StatusNotFound, "The resource could not be found.")
	}
	return c.setPower(m, sent)
}

func (c *Cloud) setPower(m *Machine, sent []byte) (int, object) {
	var asked struct{ Target string }
	if json.Unmarshal(sent, &asked) != nil || asked.Target != powerOn && asked.Target != powerOff {
		return ironicFault(http.StatusBadRequest, "The requested action could not be performed.")
	}
	if m.Locked != "" {
		return ironicFault(http.StatusConflict, fmt.Sprintf("Node %s is locked by host %s, please retry after the current operation is completed.", m.UUID, m.Locked))
	}
	m.Target, m.LastError, m.Locked = asked.Target, "", "ironic"
	return http.StatusAccepted, nil
}

func (m *Machine) said() object {
	instance := object{}
	if m.Instance != "" {
		instance["display_name"] = m.Instance
	}
	return object{
		"uuid": m.UUID, "name": orNull(m.Name), "power_state": orNull(m.Power), "target_power_state": orNull(m.Target), "last_error": orNull(m.LastError),
		"maintenance": m.Maintenance, "instance_info": instance, "reservation": orNull(m.Locked), "provision_state": "enroll",
	}
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
