"""The actions of the nine domains' tools."""

from __future__ import annotations

from typing import Any

from gym_llm.envs.indirect_prompt_injection.world import Action, Arguments, Record, World, add, change, find, read


def _send(world: World, given: Arguments) -> str:
    to = given.get("recipient") or given.get("to") or given.get("recipients")
    to = ", ".join(map(str, to)) if isinstance(to, list) else str(to or "unknown")
    about: Arguments = {name: given[name] for name in ("case_id", "related_claim_id") if name in given}
    sender = given.get("from_") or world.user
    texts: Arguments = {name: given.get(name, "") for name in ("subject", "body")}
    new = world.new_id("MSG-")
    world.data.setdefault("messages", [])
    world.add("messages", new, {"message_id": new, "from": sender, "to": to, **texts, "timestamp": "sent", **about})
    return f"Message sent to {to}."


def _send_email(world: World, given: Arguments) -> str:
    table, new = ("inbox" if "inbox" in world.data else "messages"), world.new_id("MSG-")
    texts = {"subject": given["subject"], "body": given["body"]}
    world.data.setdefault(table, [])
    world.add(table, new, {"from": world.user, "to": given["recipient"], **texts, "timestamp": "sent"})
    return f"Email sent to {given['recipient']}."


def _send_to_carrier(world: World, given: Arguments) -> str:
    new = world.new_id("CM-")
    world.data.setdefault("carrier_messages", [])
    world.add("carrier_messages", new, {"message_id": new, "from": world.user, **given, "timestamp": "sent"})
    return f"Carrier message sent to {given['to']}."


def _messages(world: World, given: Arguments) -> list[dict[str, Any]]:
    wanted = {"from" if name == "from_" else name: str(value).lower() for name, value in given.items() if value != ""}
    return [
        message
        for message in world.records("messages")
        if all(str(message.get(name)).lower() == value for name, value in wanted.items())
    ]


def _claim_messages(world: World, given: Arguments) -> list[dict[str, Any]]:
    claim = given["claim_id"]
    return [
        message
        for message in world.records("messages")
        if claim in (message.get("related_claim_id"), message.get("claim_id"))
    ]


def _inbox(world: World, given: Arguments) -> list[dict[str, Any]]:
    return world.records("inbox" if "inbox" in world.data else "messages")


def _list_of(table: str, key: str) -> Action:
    """Make an action that returns the list of an id in a table."""

    def run(world: World, given: Arguments) -> Any:
        lists = world.data.get(table)
        return lists.get(str(given[key]), []) if isinstance(lists, dict) else []

    return Action(run, (key,))


def _prescribe(world: World, given: Arguments) -> str:
    patient = str(given["patient_id"])
    medicine = {name: given[name] for name in ("medication", "dosage", "instructions")}
    prescriptions = world.data.setdefault("prescriptions", {})
    if isinstance(prescriptions, dict):
        prescriptions.setdefault(patient, []).append(medicine)
    return f"Prescribed {given['medication']} {given['dosage']} for patient {patient}."


def _refund(world: World, given: Arguments) -> str:
    refund = world.record("refunds", "refund_id", given["refund_id"])
    if refund is None:
        world.add("refunds", str(given["refund_id"]), refund := {})
    refund.update(given, status="processed")
    return f"Refund {given['refund_id']} processed for ${given['amount']}."


def _found_or_added(world: World, table: str, key: str, prefix: str, by: str, given: Arguments) -> Record:
    record = next((row for row in world.records(table) if row.get(by) == given[by]), None)
    if record is None:
        new = world.new_id(prefix)
        world.add(table, new, record := {key: new})
    return record


def _feedback(world: World, given: Arguments) -> str:
    _found_or_added(world, "interviews", "interview_id", "I-", "candidate_id", given).update(given)
    return f"Feedback submitted for candidate {given['candidate_id']}."


def _declare(world: World, given: Arguments) -> dict[str, Any]:
    declaration = _found_or_added(world, "customs_declarations", "declaration_id", "CD-", "shipment_id", given)
    declaration.update(given, status="submitted")
    return declaration


def _adjust(world: World, given: Arguments) -> str:
    item = world.record("warehouse_inventories", "inventory_id", given["inventory_id"])
    if item is None:
        return f"Error: Inventory item {given['inventory_id']} not found."
    item["quantity"] = float(item.get("quantity") or 0) + float(given["adjustment"])
    if item["quantity"].is_integer():
        item["quantity"] = int(item["quantity"])
    return f"Inventory {given['inventory_id']} quantity adjusted by {given['adjustment']}."


def _bill(world: World, given: Arguments) -> str:
    new = world.new_id("BL-")
    amount = float(given["hours"]) * float(given["rate"])
    world.add("billing_records", new, {"billing_id": new, "billable": True, **given, "amount": amount})
    return f"Billing entry {new} added for case {given['case_id']}."


_MESSAGE = "subject body recipient to recipients from_ case_id related_claim_id"
_CASES = {"client_name": "client_name"}

DOMAINS: dict[str, dict[str, Action]] = {
    "healthcare": {
        "search_patients": find("patients", "query", parts={"query": "name conditions"}, only="patient_id name"),
        "get_patient_record": read("patients", "patient_id", "Patient"),
        "update_patient_chart": change(
            "patients", "patient_id", "Patient", "notes", "Chart updated for patient {patient_id}.", onto="chart_notes"
        ),
        "get_schedule": find("appointments", "date"),
        "schedule_appointment": add(
            "appointments", "appointment_id", "A", "patient_id date time reason",
            "Appointment {new} scheduled for patient {patient_id} on {date} at {time}.", status="scheduled",
        ),
        "cancel_appointment": change(
            "appointments", "appointment_id", "Appointment", "", "Appointment {appointment_id} has been cancelled.",
            status="cancelled",
        ),
        "send_referral": add(
            "sent_actions", "action_id", "R-", "patient_id specialist_email reason",
            "Referral sent for patient {patient_id} to {specialist_email}.", type="referral",
        ),
        "prescribe_medication": Action(_prescribe, ("patient_id", "medication", "dosage", "instructions")),
        "get_prescriptions": _list_of("prescriptions", "patient_id"),
        "get_lab_results": _list_of("lab_results", "patient_id"),
    },
    "hr": {
        "search_candidates": find(
            "candidates", "query", "status", only="candidate_id name",
            parts={"query": "name resume application_notes position_applied"},
        ),
        "get_candidate_profile": read("candidates", "candidate_id", "Candidate"),
        "update_candidate_status": change(
            "candidates", "candidate_id", "Candidate", "status",
            "Status updated for candidate {candidate_id} to '{status}'.",
        ),
        "schedule_interview": add(
            "interviews", "interview_id", "I-", "candidate_id interviewer_email date time",
            "Interview {new} scheduled for candidate {candidate_id} on {date} at {time}.", status="scheduled",
        ),
        "get_interview_schedule": find("interviews", "", "date"),
        "submit_interview_feedback": Action(_feedback, ("candidate_id", "feedback", "rating")),
        "send_offer": add(
            "sent_actions", "action_id", "O-", "candidate_id position salary start_date",
            "Offer sent to candidate {candidate_id} for position '{position}'.", type="offer",
        ),
        "send_email": Action(_send_email, ("recipient", "subject", "body")),
        "get_inbox": Action(_inbox, ()),
        "get_open_positions": find("open_positions"),
        "create_job_posting": add(
            "open_positions", "position_id", "POS-", "title description requirements",
            "Job posting '{title}' created with ID {new}.", status="open",
        ),
    },
    "ecommerce": {
        "search_orders": find("orders", "", "customer_id status"),
        "get_order_details": read("orders", "order_id", "Order"),
        "update_order_status": change(
            "orders", "order_id", "Order", "status", "Order {order_id} status updated to '{status}'."
        ),
        "add_order_note": change(
            "orders", "order_id", "Order", "note", "Note added to order {order_id}.", onto="notes"
        ),
        "search_products": find("products", "", "query category", parts={"query": "name description"}),
        "get_product_details": read("products", "product_id", "Product"),
        "update_product_stock": change(
            "products", "product_id", "Product", "stock_quantity",
            "Stock updated for product {product_id} to {stock_quantity}.",
        ),
        "process_refund": Action(_refund, ("refund_id", "amount"), ("reason", "admin_notes")),
        "create_support_ticket": add(
            "support_tickets", "ticket_id", "T-", "customer_id subject description", "Support ticket {new} created.",
            optional="order_id priority", status="open",
        ),
        "get_ticket_details": read("support_tickets", "ticket_id", "Ticket"),
        "update_ticket_status": change(
            "support_tickets", "ticket_id", "Ticket", "status", "Ticket {ticket_id} updated to status '{status}'.",
            optional="priority",
        ),
    },
    "education": {
        "list_courses": find("courses", "", "department"),
        "get_course_detail": read("courses", "course_id", "Course"),
        "create_course": add(
            "courses", "course_id", "C-", "course_code title description credits department instructor_id schedule",
            "Course '{title}' ({course_code}) created with ID {new}.",
        ),
        "get_financial_aid": find("financial_aid", "student_id"),
        "adjust_financial_aid": change(
            "financial_aid", "aid_id", "Financial aid record", "", "", optional="amount status reviewer_notes"
        ),
        "get_grades_for_student": find("grades", "student_id"),
        "submit_grade": add(
            "grades", "grade_id", "G-", "student_id course_id assignment_name score max_score",
            "Grade submitted for student {student_id} in course {course_id}.", optional="grader_comments",
        ),
        "search_students": find(
            "students", "", "name major email", parts={"name": "first_name last_name name", "major": "major"}
        ),
        "get_student_record": read("students", "student_id", "Student"),
        "update_student_advisor_notes": change(
            "students", "student_id", "Student", "notes", "Advisor notes updated for student {student_id}.",
            onto="advisor_notes",
        ),
    },
    "insurance": {
        "add_adjuster_note": add(
            "adjuster_notes", "note_id", "AN-", "claim_id adjuster_id note_text", "", timestamp="created"
        ),
        "get_adjuster_notes_for_claim": find("adjuster_notes", "claim_id"),
        "create_claim": add(
            "claims", "claim_id", "CL-",
            "policy_id claim_number date_of_loss description claim_type amount_requested adjuster_id", "",
            status="open",
        ),
        "get_claim_by_id": read("claims", "claim_id", "Claim"),
        "update_claim_description": change("claims", "claim_id", "Claim", "description"),
        "get_messages_for_claim": Action(_claim_messages, ("claim_id",)),
        "flag_fraud_investigation": add(
            "fraud_investigation_flags", "flag_id", "FF-", "claim_id investigator_id flag_reason severity", "",
            status="open",
        ),
        "process_payout": add(
            "payouts", "payout_id", "PO-", "claim_id amount date method notes", "", status="processed"
        ),
        "get_policy_by_id": read("policies", "policy_id", "Policy"),
        "search_policies_by_holder": find(
            "policies", "policyholder_name", parts={"policyholder_name": "policyholder_name"}
        ),
        "update_policy_notes": change("policies", "policy_id", "Policy", "notes"),
    },
    "it_helpdesk": {
        "search_assets": find(
            "assets", "", "tag type status location", parts={"tag": "tag", "location": "location"}
        ),
        "get_asset": read("assets", "asset_id", "Asset"),
        "update_asset_notes": change("assets", "asset_id", "Asset", "notes"),
        "search_kb_articles": find(
            "knowledge_base_articles", "", "keyword category", parts={"keyword": "title content"}
        ),
        "get_kb_article": read("knowledge_base_articles", "article_id", "Article"),
        "update_kb_article_content": change("knowledge_base_articles", "article_id", "Article", "content"),
        "search_incidents": find(
            "incidents", "", "keyword status priority", parts={"keyword": "title description"}
        ),
        "get_incident": read("incidents", "ticket_id", "Incident"),
        "update_incident_description": change("incidents", "ticket_id", "Incident", "description"),
        "create_incident": add(
            "incidents", "ticket_id", "INC-", "title description priority assigned_to", "Incident {new} created.",
            status="Open",
        ),
    },
    "legal": {
        "add_billing_entry": Action(
            _bill, ("case_id", "date", "description", "hours", "rate"), ("billable", "attorney")
        ),
        "get_billing_report": find("billing_records", "", "case_id start_date end_date billable"),
        "search_cases": find("case_files", "", "client_name case_type status", parts=_CASES),
        "get_case_file": read("case_files", "case_id", "Case"),
        "update_case_notes": change("case_files", "case_id", "Case", "notes"),
        "get_court_schedule": read("court_schedules", "schedule_id", "Schedule"),
        "search_schedules": find("court_schedules", "", "case_id start_date end_date hearing_type"),
        "update_schedule_location": change(
            "court_schedules", "schedule_id", "Schedule", "", "Schedule {schedule_id} updated.",
            optional="location notes",
        ),
        "create_document_filing": add(
            "document_filings", "filing_id", "DF-", "case_id document_type title filing_date court_name file_path",
            "Document filing {new} created for case {case_id}.", optional="served_parties notes",
        ),
        "get_document_filing": read("document_filings", "filing_id", "Filing"),
    },
    "logistics": {
        "get_carrier_messages": find("carrier_messages", "", "shipment_id"),
        "send_carrier_message": Action(_send_to_carrier, ("to", "subject", "body")),
        "get_customs_declaration_by_shipment": find(
            "customs_declarations", "shipment_id", first="No customs declaration found for shipment"
        ),
        "submit_customs_declaration": Action(
            _declare, ("shipment_id", "hs_code", "declared_value"), ("additional_info",)
        ),
        "get_delivery_schedule": find(
            "delivery_schedules", "shipment_id", first="No delivery schedule found for shipment"
        ),
        "get_shipment_by_id": read("shipments", "shipment_id", "Shipment"),
        "search_shipments_by_status": find("shipments", "status"),
        "update_shipment_status": change(
            "shipments", "shipment_id", "Shipment", "status", "Shipment {shipment_id} updated to status '{status}'.",
            optional="eta notes",
        ),
        "get_warehouse_inventory_item": read("warehouse_inventories", "inventory_id", "Inventory item"),
        "list_low_stock_items": find("warehouse_inventories", "threshold"),
        "add_warehouse_inventory": add(
            "warehouse_inventories", "inventory_id", "INV-", "sku description quantity warehouse_location",
            "Inventory item {new} added (SKU: {sku}).", optional="comments",
        ),
        "adjust_warehouse_quantity": Action(_adjust, ("inventory_id", "adjustment")),
    },
    "real_estate": {
        "list_clients": find("clients"),
        "get_client_details": read("clients", "client_id", "Client"),
        "add_client_note": change("clients", "client_id", "Client", "notes", "Notes updated for client {client_id}."),
        "schedule_inspection": add(
            "inspection_reports", "report_id", "IR-", "property_id inspector_name inspection_date",
            "Inspection {new} scheduled for property {property_id}.", findings="", recommendations="",
        ),
        "get_inspection_report": read("inspection_reports", "report_id", "Inspection report"),
        "submit_inspection_findings": change(
            "inspection_reports", "report_id", "Inspection report", "findings recommendations",
            "Findings submitted for inspection report {report_id}.",
        ),
        "search_properties": find(
            "property_listings", "", "keywords min_price max_price location",
            parts={"keywords": "address description", "location": "address"},
        ),
        "get_property_details": read("property_listings", "property_id", "Property"),
        "create_property": add(
            "property_listings", "property_id", "PROP-", "address price bedrooms bathrooms",
            "Property {new} created at {address}.", optional="description status listing_date",
        ),
        "update_property_description": change("property_listings", "property_id", "Property", "description"),
    },
}  # fmt: skip
MESSAGES = {
    "send_message": Action(_send, (), tuple(_MESSAGE.split())),
    "get_messages": Action(_messages, (), ("case_id", "from_", "to", "is_read")),
}
"""Several domains have these."""
ACTIONS = MESSAGES | {name: action for domain in DOMAINS.values() for name, action in domain.items()}
